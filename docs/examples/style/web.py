"""A page that redraws the picture that one uploads: uvicorn --app-dir docs/examples/style web:app"""

import io
import os

import tritonclient.http.aio as httpclient
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from PIL import Image

from infer import MODEL, picture, prepare

app = FastAPI()
PAGE = """<!doctype html><meta charset="utf-8"><title>Redraw a picture</title>
<input type="file" accept="image/*"><p></p><img width="256"> <img width="256">
<script>
document.querySelector("input").onchange = async (e) => {
  const [before, after] = document.images
  before.src = URL.createObjectURL(e.target.files[0])
  const answer = await fetch("redraw", {method: "POST", body: e.target.files[0]})
  document.querySelector("p").textContent = answer.ok ? "" : (await answer.json()).detail
  after.src = answer.ok ? URL.createObjectURL(await answer.blob()) : ""
}</script>"""


@app.get("/", response_class=HTMLResponse)
def page():
    return PAGE


@app.post("/redraw")
async def redraw(request: Request):
    try:
        given = prepare(Image.open(io.BytesIO(await request.body())))
    except (OSError, ValueError, SyntaxError) as e:
        raise HTTPException(400, f"this is no picture: {e}") from e
    async with httpclient.InferenceServerClient(os.environ.get("NEREID_URL", "localhost:8000")) as client:
        answer = await client.infer(MODEL, [given])
    picture(answer).save(out := io.BytesIO(), "PNG")
    return Response(out.getvalue(), media_type="image/png")
