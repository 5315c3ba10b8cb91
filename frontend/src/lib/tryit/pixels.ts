// The part of image preparation that needs a browser: decoding and resizing.
import { t } from "../i18n/index.svelte";
import { place, type Prep } from "./image";

/** Draws the image at the prepared size on white, and returns its RGBA pixels. */
export function resize(image: ImageBitmap, p: Prep): Uint8ClampedArray {
  const canvas = new OffscreenCanvas(p.width, p.height);
  const g = canvas.getContext("2d", { willReadFrequently: true });
  if (!g) throw new Error(t("input.noCanvas"));
  g.fillStyle = "#fff"; // transparent pixels become white
  g.fillRect(0, 0, p.width, p.height);
  g.imageSmoothingEnabled = true;
  g.imageSmoothingQuality = "high";
  const at = place(image.width, image.height, p);
  g.drawImage(image, at.x, at.y, at.w, at.h);
  return g.getImageData(0, 0, p.width, p.height).data;
}

/** The image as a JPEG file. */
export async function jpegOf(image: ImageBitmap): Promise<Blob> {
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d")?.drawImage(image, 0, 0);
  return canvas.convertToBlob({ type: "image/jpeg", quality: 0.92 });
}

/** Decodes an image file. Colours are not converted; EXIF rotation is applied. */
export async function decodeImage(file: Blob): Promise<ImageBitmap> {
  try {
    return await createImageBitmap(file, { colorSpaceConversion: "none" });
  } catch {
    throw new Error(t("input.badImage"));
  }
}
