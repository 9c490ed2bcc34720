import type { ScatterKind } from "@backplane/core";
import { backend_util, type TensorInfo, util } from "@tensorflow/tfjs-core";
import type { BackplaneBackend, Output } from "../backend.js";
import { type DeviceType, deviceType, elementCount } from "../elements.js";
import { asType, elementwise, typed } from "./elementwise.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { copyInto, copyOf, transpose } from "./moves.js";
import { reduce } from "./reduce.js";

/** Elements of rows [outer, length, inner] by indices [count], or [outer, count]: [outer, count, inner]. */
export function gatherRows(
  backend: BackplaneBackend,
  rows: TensorInfo,
  [outer, length, inner]: readonly [number, number, number],
  indices: TensorInfo,
  repeats: boolean,
  shape: readonly number[],
): TensorInfo {
  const count = elementCount(indices.shape) / (repeats ? 1 : outer);
  const [input, places] = [backend.place(rows), backend.place(indices)];
  const output = backend.output(shape, rows.dtype as DeviceType);
  if (outer * inner * count === 0) return output;
  backend.compute.gather({
    shape: [outer, length, inner],
    axis: 1,
    input,
    indices: places,
    output: output.handle,
    indexShape: [repeats ? 1 : outer, count, 1],
    dtype: deviceType(rows.dtype),
  });
  return output;
}

/**
 * Writes updates [count, inner] to rows of the output [length, inner]. Indices [count] out of range write nothing. Types
 * that core does not scatter become integers before.
 */
function scatterRows(
  backend: BackplaneBackend,
  kind: ScatterKind,
  output: Output,
  [length, inner]: readonly [number, number],
  indices: TensorInfo,
  updates: TensorInfo,
): void {
  const count = elementCount(indices.shape);
  if (count * inner * length === 0) return;
  backend.compute.scatter({
    kind,
    shape: [length, inner],
    axis: 0,
    indexShape: [count, 1],
    indices: backend.place(indices),
    updates: backend.place(updates),
    output: output.handle,
    dtype: output.dtype === "float32" ? "f32" : "i32",
  });
}

/** The type in which a scatter works: truth values are whole numbers there. */
function scatteredType({ dtype }: TensorInfo): "float32" | "int32" {
  return dtype === "float32" ? "float32" : "int32";
}

/**
 * Refuses indices that are out of range, if the host has them. Those on the device cannot be looked at without waiting:
 * they gather 0.
 */
function checkIndices(backend: BackplaneBackend, indices: TensorInfo, extent: number): void {
  const values = backend.known(indices);
  if (values === undefined) return;
  for (const index of values as Int32Array)
    if (index < 0 || index >= extent)
      throw new Error(`GatherV2: the index value ${index} is not in [0, ${extent - 1}]`);
}

function gatherV2({
  inputs: { x, indices },
  attrs: { axis, batchDims = 0 },
  backend,
}: Call<"x" | "indices", { axis: number; batchDims?: number }>): TensorInfo {
  const [place] = util.parseAxisParam(axis, x.shape) as [number];
  checkIndices(backend, indices, x.shape[place]!);
  const info = backend_util.segment_util.collectGatherOpShapeInfo(
    x as never,
    indices as never,
    place,
    batchDims,
  );
  const { batchSize, outerSize, dimSize, sliceSize, outputShape } = info;
  return compose(backend, (made) => {
    let places = typed(backend, made, indices, "int32");
    const count = elementCount(indices.shape) / batchSize;
    if (batchSize > 1 && outerSize > 1)
      // The indices of a batch repeat for each of its rows.
      places = made(
        copyOf(backend, places, [batchSize, outerSize, count], {
          shape: [batchSize, outerSize, count],
          inputStrides: [count, 0, 1],
        }),
      );
    const extents = [batchSize * outerSize, dimSize, sliceSize] as const;
    return gatherRows(backend, x, extents, places, batchSize === 1, outputShape);
  });
}

/**
 * The rows [count] that tuples of indices [count, rank] name among the first axes of a shape; -1 if one of them is out of
 * range.
 */
function flatIndices(backend: BackplaneBackend, indices: TensorInfo, shape: readonly number[]): TensorInfo {
  const rank = indices.shape.length < 2 ? 1 : indices.shape.at(-1)!;
  const count = rank === 0 ? 0 : elementCount(indices.shape) / rank;
  return compose(backend, (made) => {
    const integers = typed(backend, made, indices, "int32");
    const view = { ...integers, shape: [count, rank] };
    // One after another, so that each is an input of its own.
    const columns = rank === 1 ? view : made(transpose(backend, view, [1, 0]));
    const parts = Array.from({ length: rank }, (_, axis) =>
      rank === 1
        ? { ...view, shape: [count] }
        : made(copyOf(backend, columns, [count], { shape: [count], inputOffset: axis * count })),
    );
    return elementwise(
      backend,
      "int32",
      parts,
      (e, ...nodes) => {
        let row = e.constant(0, "i32");
        let inside = e.constant(1, "u8");
        for (const [axis, node] of nodes.entries()) {
          const extent = e.number(shape[axis]!, "i32");
          row = e.binary("add", e.binary("mul", row, extent), node);
          inside = e.binary("logicalAnd", inside, e.binary("greaterEqual", node, e.constant(0, "i32")));
          inside = e.binary("logicalAnd", inside, e.binary("less", node, extent));
        }
        return e.select(inside, row, e.constant(-1, "i32"));
      },
      [count],
    );
  });
}

function gatherNd({ inputs: { params, indices }, backend }: Call<"params" | "indices">): TensorInfo {
  const [shape, count, size] = backend_util.prepareAndValidate(params as never, indices as never);
  if (count === 0) return backend.make(shape, params.dtype, 0);
  const rank = indices.shape.at(-1)!;
  const length = elementCount(params.shape.slice(0, rank));
  return compose(backend, (made) => {
    const rows = made(flatIndices(backend, indices, params.shape));
    return gatherRows(backend, params, [1, length, size], rows, true, shape);
  });
}

/** Scatters into a tensor of a type that core scatters, and gives the result the type of the updates. */
function scatterInto(
  backend: BackplaneBackend,
  kind: ScatterKind,
  shape: readonly number[],
  indices: TensorInfo,
  updates: TensorInfo,
  begin: (dtype: "float32" | "int32") => Output,
): TensorInfo {
  const info = backend_util.calculateShapes(updates as never, indices as never, shape as number[]);
  const { sliceRank, numUpdates, sliceSize, outputSize } = info;
  return compose(backend, (made) => {
    const dtype = scatteredType(updates);
    const output = begin(dtype);
    const rows = made(
      flatIndices(backend, { ...indices, shape: [numUpdates, sliceRank] }, shape.slice(0, sliceRank)),
    );
    let values = typed(backend, made, updates, dtype);
    if (updates.shape.length === 0 && numUpdates * sliceSize > 1)
      values = made(
        copyOf(backend, values, [numUpdates, sliceSize], {
          shape: [numUpdates, sliceSize],
          inputStrides: [0, 0],
        }),
      );
    const length = sliceSize === 0 ? 0 : outputSize / sliceSize;
    scatterRows(backend, kind, output, [length, sliceSize], rows, values);
    if (updates.dtype !== "bool") return output;
    made(output);
    return asType(backend, output, "bool");
  });
}

function unsortedSegmentSum({
  inputs: { x, segmentIds },
  attrs: { numSegments },
  backend,
}: Call<"x" | "segmentIds", { numSegments: number }>): TensorInfo {
  return compose(backend, (made) => {
    const dtype = scatteredType(x);
    const shape = [numSegments, ...x.shape.slice(segmentIds.shape.length)];
    const output = backend.output(shape, dtype, { zero: true });
    const rows = typed(backend, made, segmentIds, "int32");
    const values = typed(backend, made, x, dtype);
    scatterRows(backend, "add", output, [numSegments, elementCount(shape.slice(1))], rows, values);
    return output;
  });
}

/** How often each whole number below `size` occurs in each row of x, or the sum of the weights there. */
function bincount(
  backend: BackplaneBackend,
  x: TensorInfo,
  weights: TensorInfo,
  size: number,
  isBinary: boolean,
): TensorInfo {
  if (x.shape.length > 2) throw new Error(`DenseBincount: x has ${x.shape.length} axes; allowed: 1 or 2`);
  const [batch, count] = x.shape.length === 2 ? [x.shape[0]!, x.shape[1]!] : [1, elementCount(x.shape)];
  const shape = x.shape.length === 2 ? [batch, size] : [size];
  return compose(backend, (made) => {
    const dtype = scatteredType(weights);
    const output = backend.output(shape, dtype, { zero: true });
    const numbers = typed(backend, made, x, "int32");
    // Numbers that are too large belong to no row, and not to the next one either.
    const rows = made(
      elementwise(
        backend,
        "int32",
        [{ ...numbers, shape: [batch, count] }],
        (e, number) => {
          const extent = e.number(size, "i32");
          const place = e.binary("add", e.binary("mul", e.index(0), extent), number!);
          const inside = e.binary(
            "logicalAnd",
            e.binary("less", number!, extent),
            e.binary("greaterEqual", number!, e.constant(0, "i32")),
          );
          return e.select(inside, place, e.constant(-1, "i32"));
        },
        [batch, count],
      ),
    );
    const isWeighted = elementCount(weights.shape) > 0 && !isBinary;
    const values = made(
      isWeighted ? asType(backend, weights, dtype) : backend.make([batch * count], dtype, 1),
    );
    const flat = { ...rows, shape: [batch * count] };
    scatterRows(backend, isBinary ? "set" : "add", output, [batch * size, 1], flat, values);
    return output;
  });
}

/** How many elements of each sorted row are less than each value: one comparison for each pair. */
function searchSorted({
  inputs: { sortedSequence, values },
  attrs: { side },
  backend,
}: Call<"sortedSequence" | "values", { side: "left" | "right" }>): TensorInfo {
  const [batch, length] = sortedSequence.shape as [number, number];
  const count = values.shape[1]!;
  return compose(backend, (made) => {
    const isBefore = made(
      elementwise(
        backend,
        "int32",
        [
          { ...sortedSequence, shape: [batch, 1, length] },
          { ...values, shape: [batch, count, 1] },
        ],
        (e, element, value) => {
          const type = element!.type === "f32" || value!.type === "f32" ? "f32" : "i32";
          const kind = side === "left" ? "less" : "lessEqual";
          return e.convert("i32", e.binary(kind, e.convert(type, element!), e.convert(type, value!)));
        },
        [batch, count, length],
      ),
    );
    return reduce(backend, "sum", isBefore, [2], values.shape);
  });
}

export const indexingKernels: Kernels = {
  GatherV2: gatherV2,
  GatherNd: gatherNd,
  ScatterNd: ({
    inputs: { indices, updates },
    attrs: { shape },
    backend,
  }: Call<"indices" | "updates", { shape: number[] }>) =>
    scatterInto(backend, "add", shape, indices, updates, (dtype) =>
      backend.output(shape, dtype, { zero: true }),
    ),
  TensorScatterUpdate: ({
    inputs: { tensor, indices, updates },
    backend,
  }: Call<"tensor" | "indices" | "updates">) =>
    scatterInto(backend, "set", tensor.shape, indices, updates, (dtype) => {
      const output = backend.output(tensor.shape, dtype);
      copyInto(backend, tensor, output, { shape: tensor.shape });
      return output;
    }),
  SparseToDense: ({
    inputs: { sparseIndices, sparseValues, defaultValue },
    attrs: { outputShape },
    backend,
  }: Call<"sparseIndices" | "sparseValues" | "defaultValue", { outputShape: number[] }>) =>
    scatterInto(backend, "set", outputShape, sparseIndices, sparseValues, (dtype) => {
      const output = backend.output(outputShape, dtype);
      copyInto(backend, defaultValue, output, {
        shape: outputShape,
        inputStrides: outputShape.map(() => 0),
      });
      return output;
    }),
  UnsortedSegmentSum: unsortedSegmentSum,
  Bincount: ({ inputs: { x, weights }, attrs: { size }, backend }: Call<"x" | "weights", { size: number }>) =>
    bincount(backend, { ...x, shape: [elementCount(x.shape)] }, weights, size, false),
  DenseBincount: ({
    inputs: { x, weights },
    attrs: { size, binaryOutput = false },
    backend,
  }: Call<"x" | "weights", { size: number; binaryOutput?: boolean }>) =>
    bincount(backend, x, weights, size, binaryOutput),
  SearchSorted: searchSorted,
};
