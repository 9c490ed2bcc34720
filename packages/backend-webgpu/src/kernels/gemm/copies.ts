/** When operands of a product are copied into one layout first (see `inKMajor`): facts about shapes alone. */
import type { DeviceFeatures } from "../../device/index.js";
import { storeRounded } from "../halves.js";
import type { GemmShape } from "./shape.js";

/** The products of packed operands take k in multiples of this: two steps of their tiles. */
const WHOLE_DEPTH = 16;

/** `k` with the zeros after it. */
export function packedDepth(k: number): number {
  return Math.ceil(k / WHOLE_DEPTH) * WHOLE_DEPTH;
}

/** Returns the elements from one k to the next in a packed operand of this many lines; whole quads. */
export function packedPitch(lines: number): number {
  return 4 * Math.ceil(lines / 4);
}

/** Whether an operand can be taken as it is: f32, one stored row for each k, in whole, aligned runs of four. */
export function isKMajor(shape: GemmShape, name: "a" | "b"): boolean {
  const { dtype, k, transA, transB, vectorA, vectorB } = shape;
  return dtype === "f32" && k % WHOLE_DEPTH === 0 && (name === "a" ? transA && vectorA : !transB && vectorB);
}

/** Returns the scratch for a copy of an operand in all matrices of a batch, in bytes; 0 if no copy is made. */
function packedBytes(shape: GemmShape, name: "a" | "b"): number {
  const lines = name === "a" ? shape.m : shape.n;
  return isKMajor(shape, name) ? 0 : 4 * shape.batch * packedDepth(shape.k) * packedPitch(lines);
}

/** Largest scratch of a product with packed operands, in bytes: as much as is kept for the next call by default. */
const MOST_PACKED = 2 ** 29;

/** Multiplications of a large product in a microsecond, on an NVIDIA H200. */
const MULTIPLICATIONS = 24.5e6;

/** Microseconds that a copy takes however small it is. */
const COPYING = 3;

/**
 * Returns the time of copies of the operands, relative to the product. Each number of A is used n times, and
 * copying it takes an NVIDIA H200 as long as 46 multiplications.
 */
function packingShare(shape: GemmShape): number {
  return (isKMajor(shape, "a") ? 0 : 46 / shape.n) + (isKMajor(shape, "b") ? 0 : 46 / shape.m);
}

/** Returns the microseconds for copies of the operands there, and for rounding the sums. */
export function copyTime(shape: GemmShape): number {
  const { dtype, m, n, k, batch } = shape;
  const copies = (isKMajor(shape, "a") ? 0 : COPYING) + (isKMajor(shape, "b") ? 0 : COPYING);
  const share = packingShare(shape) + (storeRounded[dtype] === undefined ? 0 : 46 / k);
  return copies + (share * batch * m * n * k) / MULTIPLICATIONS;
}

/** Whether there is room for copies, and for the sums if they have to be rounded. */
function hasRoomForCopies(shape: GemmShape, { limits }: DeviceFeatures): boolean {
  const [a, b] = [packedBytes(shape, "a"), packedBytes(shape, "b")];
  const sums = 4 * shape.batch * shape.m * packedPitch(shape.n);
  return (
    a + b + (storeRounded[shape.dtype] === undefined ? 0 : sums) <= MOST_PACKED &&
    Math.max(a, b, sums) <= limits.maxStorageBufferBindingSize
  );
}

/** Multiplications from which copies are worth the wait for further dispatches. */
const LARGE_PRODUCT = 1.5e9;

/** Whether quads are unpacked, turned or gathered on their way to workgroup memory, unless they are copied before. */
export function isAwkward({ dtype, transB, vectorA, vectorB }: GemmShape): boolean {
  return dtype !== "f32" || transB || !vectorA || !vectorB;
}

/**
 * Whether a product is large enough to consider copies of its operands, and there is room for them. A
 * comparison with other tiles (`expectedTime`) shows whether they pay. Other tiles are fastest
 * if A is stored transposed, which that comparison does not know.
 */
export function allowsCopies(shape: GemmShape, features: DeviceFeatures): boolean {
  const { m, n, k, batch, transA } = shape;
  return (
    k >= 256 &&
    batch * m * n * k >= LARGE_PRODUCT &&
    packingShare(shape) <= (transA && !isAwkward(shape) ? 0 : 0.09) &&
    hasRoomForCopies(shape, features) &&
    !features.family?.isEmulated
  );
}
