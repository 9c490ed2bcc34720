import { backend_util, type TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { type DeviceType, elementCount } from "../elements.js";
import { elementwise, elementwiseOutputs, typed } from "./elementwise.js";
import type { Expression, Node } from "./formula.js";
import { gatherRows } from "./indexing.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { copyOf } from "./moves.js";

/*
 * Pixels of images at places that are computed: one map finds the places, gather takes whole pixels from there, and
 * another map weighs them.
 */

/** Column after column of a matrix [rows, columns], each of the given shape. */
function columnsOf(
  backend: BackplaneBackend,
  matrix: TensorInfo,
  shape: readonly number[],
): readonly TensorInfo[] {
  const [rows, columns] = matrix.shape as [number, number];
  return Array.from({ length: columns }, (_, column) =>
    copyOf(backend, matrix, shape, { shape: [rows], inputStrides: [columns], inputOffset: column }),
  );
}

/** The nearest whole number; the larger one of two. */
function nearest(e: Expression, x: Node): Node {
  return e.unary("floor", e.binary("add", x, e.constant(0.5)));
}

/** Whether least <= x <= most. */
function isWithin(e: Expression, x: Node, least: Node, most: Node): Node {
  return e.binary("logicalAnd", e.binary("greaterEqual", x, least), e.binary("lessEqual", x, most));
}

/** The number of a pixel; -1 if it is outside of the image. */
function pixelOf(
  e: Expression,
  image: Node,
  y: Node,
  x: Node,
  [height, width]: readonly [number, number],
  isValid?: Node,
): Node {
  const zero = e.constant(0);
  const inRows = isWithin(e, y, zero, e.number(height - 1));
  const inColumns = isWithin(e, x, zero, e.number(width - 1));
  let inside = e.binary("logicalAnd", inRows, inColumns);
  if (isValid !== undefined) inside = e.binary("logicalAnd", inside, isValid);
  const row = e.binary("add", e.binary("mul", image, e.number(height, "i32")), e.convert("i32", y));
  const place = e.binary("add", e.binary("mul", row, e.number(width, "i32")), e.convert("i32", x));
  return e.select(inside, place, e.constant(-1, "i32"));
}

/** What is found at a place: the four pixels around it, or the nearest one, and how far it is from the first one. */
interface Places {
  /** Numbers of pixels, i32. */
  readonly pixels: readonly Node[];
  /** From the first pixel to the place, down and right. Not of `nearest`. */
  readonly steps: readonly Node[];
}

function placesAt(
  e: Expression,
  method: "bilinear" | "nearest",
  [y, x]: readonly [Node, Node],
  pixelAt: (y: Node, x: Node) => Node,
  next: (at: Node, first: Node) => Node,
): Places {
  if (method === "nearest") return { pixels: [pixelAt(nearest(e, y), nearest(e, x))], steps: [] };
  const [top, left] = [e.unary("floor", y), e.unary("floor", x)];
  const [bottom, right] = [next(y, top), next(x, left)];
  return {
    pixels: [pixelAt(top, left), pixelAt(top, right), pixelAt(bottom, left), pixelAt(bottom, right)],
    steps: [e.binary("sub", y, top), e.binary("sub", x, left)],
  };
}

/** The pixels, weighed: [...shape, channels]. `filled` says what stands for pixels that there are not. */
function weigh(
  backend: BackplaneBackend,
  image: TensorInfo,
  places: readonly TensorInfo[],
  shape: readonly number[],
  filled: (e: Expression, pixel: Node, place: Node) => Node,
): TensorInfo {
  const [batch, height, width, channels] = image.shape as [number, number, number, number];
  const extents = [1, batch * height * width, channels] as const;
  const isNearest = places.length === 1;
  const numbers = isNearest ? places : places.slice(0, 4);
  return compose(backend, (made) => {
    const outShape = [...shape, channels];
    const pixels = numbers.map((place) =>
      made(gatherRows(backend, image, extents, { ...place, shape: [elementCount(shape)] }, true, outShape)),
    );
    const perPixel = places.map((place) => ({ ...place, shape: [...shape, 1] }));
    return elementwise(
      backend,
      "float32",
      [...pixels, ...perPixel],
      (e, ...nodes) => {
        const values = numbers.map((_, i) =>
          filled(e, e.convert("f32", nodes[i]!), nodes[pixels.length + i]!),
        );
        if (isNearest) return values[0]!;
        const [down, right] = nodes.slice(-2) as [Node, Node];
        const between = (a: Node, b: Node, step: Node) =>
          e.binary("add", a, e.binary("mul", e.binary("sub", b, a), step));
        const [top, bottom] = [
          between(values[0]!, values[1]!, right),
          between(values[2]!, values[3]!, right),
        ];
        return between(top, bottom, down);
      },
      outShape,
    );
  });
}

interface CropAttributes {
  readonly cropSize: [number, number];
  readonly method: "bilinear" | "nearest";
  readonly extrapolationValue: number;
}

function cropAndResize({
  inputs: { image, boxes, boxInd },
  attrs: { cropSize, method, extrapolationValue },
  backend,
}: Call<"image" | "boxes" | "boxInd", CropAttributes>): TensorInfo {
  const [batch, height, width] = image.shape as [number, number, number, number];
  const count = boxes.shape[0]!;
  const shape = [count, ...cropSize];
  return compose(backend, (made) => {
    const corners = columnsOf(backend, boxes, [count, 1, 1]).map(made);
    const images = { ...typed(backend, made, boxInd, "int32"), shape: [count, 1, 1] };
    const types: DeviceType[] = method === "nearest" ? ["int32"] : [...fourPixels, "float32", "float32"];
    const places = elementwiseOutputs(
      backend,
      types,
      [...corners, images],
      (e, ...nodes) => {
        const [y1, x1, y2, x2] = nodes.slice(0, 4).map((node) => e.convert("f32", node));
        const number = nodes[4]!;
        // Where the crop's rows (or columns) are in the image.
        const along = (from: Node, to: Node, axis: number, extent: number) => {
          const most = e.number(extent - 1);
          const crop = cropSize[axis]!;
          const sum = e.binary("add", from, to);
          if (crop === 1) return e.binary("mul", e.binary("mul", sum, e.constant(0.5)), most);
          const scale = e.binary("div", e.binary("mul", e.binary("sub", to, from), most), e.number(crop - 1));
          const place = e.convert("f32", e.index(axis + 1));
          return e.binary("add", e.binary("mul", from, most), e.binary("mul", place, scale));
        };
        const [y, x] = [along(y1!, y2!, 0, height), along(x1!, x2!, 1, width)];
        const zero = e.constant(0);
        const inside = e.binary(
          "logicalAnd",
          isWithin(e, y, zero, e.number(height - 1)),
          isWithin(e, x, zero, e.number(width - 1)),
        );
        const isImage = isWithin(e, number, e.constant(0, "i32"), e.number(batch - 1, "i32"));
        const pixelAt = (row: Node, column: Node) => {
          const pixel = pixelOf(e, number, row, column, [height, width], isImage);
          // -2 stands for what is beyond the image, and -1 for an image that there is not, which is 0.
          return e.select(inside, pixel, e.constant(-2, "i32"));
        };
        const { pixels, steps } = placesAt(e, method, [y, x], pixelAt, (at) => e.unary("ceil", at));
        return [...pixels, ...steps];
      },
      shape,
    ).map(made);
    return weigh(backend, image, places, shape, (e, pixel, place) => {
      const isBeyond = e.binary("equal", place, e.constant(-2, "i32"));
      return e.select(isBeyond, e.number(extrapolationValue), pixel);
    });
  });
}

const fourPixels = ["int32", "int32", "int32", "int32"] as const;

type FillMode = "constant" | "reflect" | "wrap" | "nearest";

/** Moves a coordinate into the image, in the manner of a fill mode. */
function mapCoordinate(e: Expression, x: Node, extent: number, mode: FillMode): Node {
  const zero = e.constant(0);
  const most = e.number(extent - 1);
  const clamp = (node: Node) => e.binary("min", e.binary("max", node, zero), most);
  if (mode === "constant") return x;
  if (mode === "nearest" || extent <= 1) return clamp(x);
  const isBefore = e.binary("less", x, zero);
  const isAfter = e.binary("greater", x, most);
  const whole = e.number(extent);
  const times = (a: Node, b: Node) => e.binary("mul", a, b);
  const minus = (a: Node, b: Node) => e.binary("sub", a, b);
  const plus = (a: Node, b: Node) => e.binary("add", a, b);
  const turns = (a: Node, b: Node) => e.unary("trunc", e.binary("div", a, b));
  if (mode === "wrap") {
    // A turn is counted by the last place, and goes by the extent.
    const before = plus(x, times(whole, plus(turns(e.unary("neg", x), most), e.constant(1))));
    const after = minus(x, times(whole, turns(x, most)));
    return clamp(e.select(isBefore, before, e.select(isAfter, after, x)));
  }
  const both = e.number(2 * extent);
  const moved = e.select(e.binary("less", x, both), plus(x, times(both, turns(e.unary("neg", x), both))), x);
  const before = e.select(
    e.binary("less", moved, e.unary("neg", whole)),
    plus(moved, both),
    minus(e.unary("neg", moved), e.constant(1)),
  );
  const rest = minus(x, times(both, turns(x, both)));
  const after = e.select(
    e.binary("greaterEqual", rest, whole),
    minus(minus(both, rest), e.constant(1)),
    rest,
  );
  return clamp(e.select(isBefore, before, e.select(isAfter, after, x)));
}

interface TransformAttributes {
  readonly interpolation: "nearest" | "bilinear";
  readonly fillMode: FillMode;
  readonly fillValue: number;
  readonly outputShape?: [number, number] | null;
}

/** A projective transform of each image: eight numbers say where each pixel of the output comes from. */
function transformImages({
  inputs: { image, transforms },
  attrs: { interpolation, fillMode, fillValue, outputShape },
  backend,
}: Call<"image" | "transforms", TransformAttributes>): TensorInfo {
  const [batch, height, width] = image.shape as [number, number, number, number];
  const shape = [batch, ...(outputShape ?? [height, width])];
  return compose(backend, (made) => {
    const numbers = columnsOf(backend, transforms, [transforms.shape[0]!, 1, 1]).map(made);
    const types: DeviceType[] =
      interpolation === "nearest" ? ["int32"] : [...fourPixels, "float32", "float32"];
    const places = elementwiseOutputs(
      backend,
      types,
      numbers,
      (e, ...nodes) => {
        const t = nodes.map((node) => e.convert("f32", node));
        const [outY, outX] = [e.convert("f32", e.index(1)), e.convert("f32", e.index(2))];
        const line = (a: Node, b: Node, c: Node) =>
          e.binary("add", e.binary("add", e.binary("mul", a, outX), e.binary("mul", b, outY)), c);
        const projection = line(t[6]!, t[7]!, e.constant(1));
        const isNowhere = e.binary("equal", projection, e.constant(0));
        const divisor = e.select(isNowhere, e.constant(1), projection);
        const x = mapCoordinate(e, e.binary("div", line(t[0]!, t[1]!, t[2]!), divisor), width, fillMode);
        const y = mapCoordinate(e, e.binary("div", line(t[3]!, t[4]!, t[5]!), divisor), height, fillMode);
        const pixelAt = (row: Node, column: Node) => {
          const pixel = pixelOf(e, e.index(0), row, column, [height, width]);
          // -2 stands for a place at infinity, which is 0, and -1 for one outside of the image.
          return e.select(isNowhere, e.constant(-2, "i32"), pixel);
        };
        const { pixels, steps } = placesAt(e, interpolation, [y, x], pixelAt, (_, first) =>
          e.binary("add", first, e.constant(1)),
        );
        return [...pixels, ...steps];
      },
      shape,
    ).map(made);
    return weigh(backend, image, places, shape, (e, pixel, place) => {
      const isOutside = e.binary("equal", place, e.constant(-1, "i32"));
      return e.select(isOutside, e.number(fillValue), pixel);
    });
  });
}

interface RotateAttributes {
  readonly radians: number;
  readonly fillValue: number | [number, number, number];
  readonly center: number | [number, number];
}

/** Images turned around a point. Of one fill value, the fourth channel is opaque. */
function rotateWithOffset({
  inputs: { image },
  attrs: { radians, fillValue, center },
  backend,
}: Call<"image", RotateAttributes>): TensorInfo {
  const [batch, height, width, channels] = image.shape as [number, number, number, number];
  const [centerX, centerY] = backend_util.getImageCenter(center, height, width) as [number, number];
  const shape = [batch, height, width];
  const opaque = 255;
  const fills = Float32Array.from({ length: channels }, (_, channel) => {
    if (typeof fillValue !== "number") return fillValue[channel] ?? opaque;
    return channel === 3 ? opaque : fillValue;
  });
  return compose(backend, (made) => {
    const pixels = made(
      elementwise(
        ...([backend, "int32", []] as const),
        (e) => {
          const [cos, sin] = [e.number(Math.cos(radians)), e.number(Math.sin(radians))];
          const y = e.binary("sub", e.convert("f32", e.index(1)), e.number(centerY));
          const x = e.binary("sub", e.convert("f32", e.index(2)), e.number(centerX));
          const fromX = e.binary("sub", e.binary("mul", x, cos), e.binary("mul", y, sin));
          const fromY = e.binary("add", e.binary("mul", x, sin), e.binary("mul", y, cos));
          const [column, row] = [
            nearest(e, e.binary("add", fromX, e.number(centerX))),
            nearest(e, e.binary("add", fromY, e.number(centerY))),
          ];
          return pixelOf(e, e.index(0), row, column, [height, width]);
        },
        shape,
      ),
    );
    const extents = [1, batch * height * width, channels] as const;
    const taken = made(
      gatherRows(backend, image, extents, { ...pixels, shape: [elementCount(shape)] }, true, image.shape),
    );
    const border = made(backend.make([channels], "float32", fills));
    return elementwise(
      backend,
      image.dtype as DeviceType,
      [taken, { ...pixels, shape: [...shape, 1] }, border],
      (e, pixel, place, fill) => {
        const isOutside = e.binary("less", place!, e.constant(0, "i32"));
        return e.select(isOutside, fill!, e.convert("f32", pixel!));
      },
      image.shape,
    );
  });
}

/**
 * Draws classes by their log-probabilities: the largest of these with noise of the Gumbel distribution added (Gumbel,
 * 1954).
 */
function multinomial({
  inputs: { logits },
  attrs: { numSamples, seed, normalized },
  backend,
}: Call<"logits", { numSamples: number; seed: number; normalized: boolean }>): TensorInfo {
  const [batch, classes] = logits.shape as [number, number];
  const shape = [batch, numSamples, classes];
  return compose(backend, (made) => {
    const uniform = made(backend.output(shape, "float32"));
    const count = elementCount(shape);
    // A seed of TensorFlow.js is any number: its bits choose the sequence.
    const bits = new BigUint64Array(Float64Array.of(seed).buffer)[0]!;
    backend.compute.random({ kind: "uniform", count, seed: bits, output: uniform.handle });
    const scores = made(
      elementwise(
        backend,
        "float32",
        [{ ...logits, shape: [batch, 1, classes] }, uniform],
        (e, given, noise) => {
          const logit = normalized ? e.unary("log", e.convert("f32", given!)) : e.convert("f32", given!);
          // The middle of the interval that a fraction of 24 bits stands for: neither 0 nor 1.
          const inside = e.binary("add", noise!, e.constant(2 ** -25));
          const exponential = e.unary("neg", e.unary("log", inside));
          return e.binary("sub", logit, e.unary("log", exponential));
        },
        shape,
      ),
    );
    const output = backend.output([batch, numSamples], "int32");
    const input = backend.place(scores);
    backend.compute.argReduce({ kind: "argMax", shape, axis: 2, input, output: output.handle });
    return output;
  });
}

export const samplingKernels: Kernels = {
  CropAndResize: cropAndResize,
  Transform: transformImages,
  RotateWithOffset: rotateWithOffset,
  Multinomial: multinomial,
};
