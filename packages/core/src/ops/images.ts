/* What operations on images share: the order of their axes. */

/** The order of the axes: [batch, channels, height, width] or [batch, height, width, channels]. */
export type ImageLayout = "NCHW" | "NHWC";

export const layouts: readonly ImageLayout[] = ["NCHW", "NHWC"];

/** Images of either layout in one form: element (p, y, x, c) is at ((p * height + y) * width + x) * inner + c. */
export interface Images {
  readonly planes: number;
  readonly height: number;
  readonly width: number;
  readonly inner: number;
  /** The shape of as many images of other extents, in the order of the layout. */
  shape(height: number, width: number): readonly [number, number, number, number];
}

export function imagesOf(layout: ImageLayout, shape: readonly [number, number, number, number]): Images {
  const [batch, second, third, fourth] = shape;
  return layout === "NCHW"
    ? {
        planes: batch * second,
        height: third,
        width: fourth,
        inner: 1,
        shape: (height, width) => [batch, second, height, width],
      }
    : {
        planes: batch,
        height: second,
        width: third,
        inner: fourth,
        shape: (height, width) => [batch, height, width, fourth],
      };
}
