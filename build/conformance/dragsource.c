// dragsource URI...: shows a small window in the corner of the screen, from which the drop test drags the files.
// It prints "ready" when the window is visible and "sent" when a target has requested the files.
#include <gtk/gtk.h>
#include <stdio.h>

static gchar **uris;

static void send_files(GtkWidget *w, GdkDragContext *c, GtkSelectionData *data, guint info, guint time, gpointer user) {
  (void)w, (void)c, (void)info, (void)time, (void)user;
  gtk_selection_data_set_uris(data, uris);
  puts("sent");
  fflush(stdout);
}

static gboolean shown(GtkWidget *w, GdkEvent *e, gpointer user) {
  (void)w, (void)e, (void)user;
  puts("ready");
  fflush(stdout);
  return FALSE;
}

int main(int argc, char **argv) {
  static GtkTargetEntry target[] = {{"text/uri-list", 0, 0}};
  gtk_init(&argc, &argv);
  uris = argv + 1;
  GtkWidget *window = gtk_window_new(GTK_WINDOW_TOPLEVEL);
  gtk_window_set_title(GTK_WINDOW(window), "files");
  gtk_window_set_decorated(GTK_WINDOW(window), FALSE);
  gtk_window_set_default_size(GTK_WINDOW(window), 20, 20);
  gtk_window_move(GTK_WINDOW(window), 0, 0);
  GtkWidget *box = gtk_event_box_new();
  gtk_container_add(GTK_CONTAINER(window), box);
  gtk_drag_source_set(box, GDK_BUTTON1_MASK, target, 1, GDK_ACTION_COPY);
  g_signal_connect(box, "drag-data-get", G_CALLBACK(send_files), NULL);
  g_signal_connect(window, "map-event", G_CALLBACK(shown), NULL);
  g_signal_connect(window, "destroy", G_CALLBACK(gtk_main_quit), NULL);
  gtk_widget_show_all(window);
  gtk_main();
  return 0;
}
