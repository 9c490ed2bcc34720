import type { Conv2dGeometry } from "@backplane/core";

/** The place of pixel `pixel` of a channel of an image. */
type Place = (image: number, channel: number, pixel: number) => number;

/** Of images in a layout. */
export function placeIn(layout: Conv2dGeometry["layout"], channels: number, pixels: number): Place {
  return layout === "NCHW"
    ? (image, channel, pixel) => (image * channels + channel) * pixels + pixel
    : (image, channel, pixel) => (image * pixels + pixel) * channels + channel;
}
