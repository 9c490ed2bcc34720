import { backend_util, slice_util, type TensorInfo, util } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { type DeviceType, elementCount, stridesOf } from "../elements.js";
import { elementOf } from "./creation.js";
import { axisOf, type Call, compose, type Kernels, listOf } from "./kernel.js";
import { concat, copyInto, copyOf, pad, slice, transpose } from "./moves.js";

/** As a kernel of numbers, also for complex tensors, whose parts are moved alike. */
function forParts<Inputs, Attributes>(
  kernel: (call: {
    inputs: Inputs;
    attrs: Attributes;
    backend: BackplaneBackend;
  }) => TensorInfo | TensorInfo[],
): typeof kernel {
  return (call) => {
    if (!hasComplex(call.inputs as never)) return kernel(call);
    const part = (name: "real" | "imag") => {
      const replaced = Object.entries(call.inputs as Record<string, TensorInfo>).map(([key, tensor]) => [
        key,
        tensor.dtype === "complex64" ? call.backend.parts(tensor)[name] : tensor,
      ]);
      const inputs = Array.isArray(call.inputs)
        ? replaced.map(([, tensor]) => tensor)
        : Object.fromEntries(replaced);
      return kernel({ ...call, inputs });
    };
    const [real, imag] = [part("real"), part("imag")];
    if (!Array.isArray(real)) return call.backend.complex(real, imag as TensorInfo);
    return real.map((one, i) => call.backend.complex(one, (imag as TensorInfo[])[i]!));
  };
}

/** Whether there are complex tensors among inputs, by name or in a list. */
function hasComplex(
  inputs: Readonly<Record<string, TensorInfo | undefined>> | readonly TensorInfo[],
): boolean {
  if (Array.isArray(inputs)) return inputs.some(({ dtype }) => dtype === "complex64");
  const named = inputs as Readonly<Record<string, TensorInfo | undefined>>;
  for (const name in named) if (named[name]?.dtype === "complex64") return true;
  return false;
}

/** The most axes of a copy. */
const mostAxes = 8;

function tile(backend: BackplaneBackend, x: TensorInfo, reps: readonly number[]): TensorInfo {
  if (tiledAxes(x.shape, reps).length <= mostAxes) return tileAtOnce(backend, x, reps);
  // First the later half of the axes, then the others: either half makes at most 2 axes of each, and one of the rest.
  const half = Math.floor(reps.length / 2);
  const [outer, inner] = [
    reps.map((count, axis) => (axis < half ? count : 1)),
    reps.map((count, axis) => (axis < half ? 1 : count)),
  ];
  return compose(backend, (made) => tileAtOnce(backend, made(tileAtOnce(backend, x, inner)), outer));
}

/** The axes of a tiled tensor as it is read: repeated ones are two, and neighbours that are not repeated one. */
function tiledAxes(shape: readonly number[], reps: readonly number[]) {
  const strides = stridesOf(shape);
  const axes: { extent: number; stride: number; isRepeated: boolean }[] = [];
  for (const [axis, extent] of shape.entries()) {
    const stride = strides[axis]!;
    const isRepeated = reps[axis] !== 1;
    const last = axes.at(-1);
    if (isRepeated) axes.push({ extent: reps[axis]!, stride: 0, isRepeated });
    if (!isRepeated && last?.isRepeated === false)
      axes[axes.length - 1] = { extent: last.extent * extent, stride, isRepeated };
    else axes.push({ extent, stride, isRepeated });
  }
  return axes;
}

function tileAtOnce(backend: BackplaneBackend, x: TensorInfo, reps: readonly number[]): TensorInfo {
  const axes = tiledAxes(x.shape, reps);
  return copyOf(
    backend,
    x,
    x.shape.map((extent, axis) => extent * reps[axis]!),
    { shape: axes.map(({ extent }) => extent), inputStrides: axes.map(({ stride }) => stride) },
  );
}

function reverse(backend: BackplaneBackend, x: TensorInfo, axes: readonly number[]): TensorInfo {
  const strides = stridesOf(x.shape);
  let inputOffset = 0;
  for (const axis of axes) {
    inputOffset += (x.shape[axis]! - 1) * strides[axis]!;
    strides[axis] = -strides[axis]!;
  }
  return copyOf(backend, x, x.shape, { shape: x.shape, inputStrides: strides, inputOffset });
}

/** A border that mirrors the tensor, axis after axis. `reflect` leaves the outermost elements out. */
function mirrorPad(
  backend: BackplaneBackend,
  x: TensorInfo,
  paddings: readonly (readonly [number, number])[],
  skipped: 0 | 1,
): TensorInfo {
  return compose(backend, (made) => {
    let padded = x;
    for (const [axis, [before, after]] of paddings.entries())
      if (before + after > 0) padded = made(mirrorPadAxis(backend, padded, axis, [before, after], skipped));
    return backend.share(padded, padded.shape);
  });
}

function mirrorPadAxis(
  backend: BackplaneBackend,
  x: TensorInfo,
  axis: number,
  [before, after]: readonly [number, number],
  skipped: 0 | 1,
): TensorInfo {
  const extent = x.shape[axis]!;
  const output = backend.output(x.shape.with(axis, before + extent + after), x.dtype as DeviceType);
  const [inputStrides, outputStrides] = [stridesOf(x.shape), stridesOf(output.shape)];
  const step = inputStrides[axis]!;
  const put = (count: number, from: number, direction: 1 | -1, to: number) =>
    copyInto(backend, x, output, {
      shape: x.shape.with(axis, count),
      inputStrides: inputStrides.with(axis, direction * step),
      inputOffset: from * step,
      outputStrides,
      outputOffset: to * outputStrides[axis]!,
    });
  put(before, before - 1 + skipped, -1, 0);
  put(extent, 0, 1, before);
  put(after, extent - 1 - skipped, -1, before + extent);
  return output;
}

interface SliceAttributes {
  readonly begin: number | number[];
  readonly size: number | number[];
}

interface StridedSliceAttributes {
  readonly begin: number[];
  readonly end: number[];
  readonly strides: number[];
  readonly beginMask: number;
  readonly endMask: number;
  readonly ellipsisMask: number;
  readonly newAxisMask: number;
  readonly shrinkAxisMask: number;
}

function stridedSlice({ inputs: { x }, attrs, backend }: Call<"x", StridedSliceAttributes>): TensorInfo {
  const { begin, end, strides, beginMask, endMask, ellipsisMask, newAxisMask, shrinkAxisMask } = attrs;
  const info = slice_util.sliceInfo(
    ...([x.shape, begin, end, strides] as const),
    ...([beginMask, endMask, ellipsisMask, newAxisMask, shrinkAxisMask] as const),
  );
  if (info.isIdentity) return backend.share(x, info.finalShape);
  const steps = stridesOf(x.shape);
  return copyOf(backend, x, info.finalShape, {
    shape: slice_util.computeOutShape(info.begin, info.end, info.strides),
    inputStrides: steps.map((step, axis) => step * info.strides[axis]!),
    inputOffset: info.begin.reduce((offset, at, axis) => offset + at * steps[axis]!, 0),
  });
}

function split(
  backend: BackplaneBackend,
  x: TensorInfo,
  sizes: readonly number[],
  axis: number,
): TensorInfo[] {
  const begin = x.shape.map(() => 0);
  return sizes.map((size) => {
    const part = slice(backend, x, begin, x.shape.with(axis, size));
    begin[axis]! += size;
    return part;
  });
}

/** Kernels that give the same data another shape, of every type. */
export const viewKernels: Kernels = {
  Identity: ({ inputs: { x }, backend }: Call<"x">) => backend.share(x, x.shape),
  Reshape: ({ inputs: { x }, attrs: { shape }, backend }: Call<"x", { shape: number[] }>) => {
    const size = elementCount(x.shape);
    const inferred = util.inferFromImplicitShape(shape, size);
    if (elementCount(inferred) !== size)
      throw new Error(
        `Reshape: shape is [${inferred.join(", ")}] of ${elementCount(inferred)} elements; ` +
          `allowed: shapes of ${size}, as many as [${x.shape.join(", ")}] has`,
      );
    return backend.share(x, inferred);
  },
  ExpandDims: ({ inputs: { input }, attrs: { dim }, backend }: Call<"input", { dim: number }>) => {
    const rank = input.shape.length;
    if (dim < -(rank + 1) || dim > rank)
      throw new Error(`ExpandDims: dim is ${dim}; allowed: ${-(rank + 1)} to ${rank}`);
    const place = dim < 0 ? dim + rank + 1 : dim;
    return backend.share(input, input.shape.toSpliced(place, 0, 1));
  },
};

/** Kernels that move elements by strides, of numbers, truth values and complex numbers. */
export const structureKernels: Kernels = {
  Transpose: forParts(({ inputs: { x }, attrs: { perm }, backend }: Call<"x", { perm: number[] }>) =>
    transpose(backend, x, perm),
  ),
  Slice: forParts(({ inputs: { x }, attrs, backend }: Call<"x", SliceAttributes>) => {
    const [begin, size] = slice_util.parseSliceParams(x, attrs.begin, attrs.size);
    slice_util.assertParamsValid(x, begin as number[], size as number[]);
    return slice(backend, x, begin as number[], size as number[]);
  }),
  StridedSlice: forParts(stridedSlice),
  Concat: forParts(({ inputs, attrs: { axis }, backend }: Call<string, { axis: number }>) => {
    const all = listOf(inputs);
    const place = axisOf(axis, all[0]!.shape);
    backend_util.assertParamsConsistent(
      all.map(({ shape }) => shape),
      place,
    );
    const filled = all.filter(({ shape }) => elementCount(shape) > 0);
    if (filled.length === 1) return backend.share(filled[0]!, filled[0]!.shape);
    return concat(backend, filled.length === 0 ? all : filled, place);
  }),
  Pack: forParts(({ inputs, attrs: { axis }, backend }: Call<string, { axis: number }>) => {
    const tensors = listOf(inputs);
    for (const { shape, dtype } of tensors) {
      util.assertShapesMatch(
        tensors[0]!.shape,
        shape,
        "All tensors passed to stack must have matching shapes",
      );
      util.assert(dtype === tensors[0]!.dtype, () => "All tensors passed to stack must have matching dtypes");
    }
    const views = tensors.map((tensor) => ({ ...tensor, shape: tensor.shape.toSpliced(axis, 0, 1) }));
    return concat(backend, views, axis);
  }),
  Unpack: forParts(({ inputs: { value }, attrs: { axis }, backend }: Call<"value", { axis: number }>) => {
    const place = axis < 0 ? axis + value.shape.length : axis;
    const parts = split(backend, value, new Array<number>(value.shape[place]!).fill(1), place);
    return parts.map((part) => ({ ...part, shape: part.shape.toSpliced(place, 1) }));
  }),
  SplitV: forParts(
    ({
      inputs: { x },
      attrs: { numOrSizeSplits, axis },
      backend,
    }: Call<"x", { numOrSizeSplits: number | number[]; axis: number }>) => {
      const place = axisOf(axis, x.shape);
      return split(
        backend,
        x,
        backend_util.prepareSplitSize({ shape: x.shape } as never, numOrSizeSplits, place),
        place,
      );
    },
  ),
  Reverse: forParts(({ inputs: { x }, attrs: { dims }, backend }: Call<"x", { dims: number | number[] }>) =>
    reverse(backend, x, util.parseAxisParam(dims, x.shape)),
  ),
  FlipLeftRight: ({ inputs: { image }, backend }: Call<"image">) => reverse(backend, image, [2]),
  Tile: forParts(({ inputs: { x }, attrs: { reps }, backend }: Call<"x", { reps: number[] }>) =>
    tile(backend, x, reps),
  ),
  PadV2: forParts(
    ({
      inputs: { x },
      attrs: { paddings, constantValue },
      backend,
    }: Call<"x", { paddings: [number, number][]; constantValue: number }>) =>
      pad(backend, x, paddings, elementOf(x.dtype, constantValue)),
  ),
  MirrorPad: ({
    inputs: { x },
    attrs: { paddings, mode },
    backend,
  }: Call<"x", { paddings: [number, number][]; mode: "reflect" | "symmetric" }>) =>
    mirrorPad(backend, x, paddings, mode === "reflect" ? 1 : 0),
};
