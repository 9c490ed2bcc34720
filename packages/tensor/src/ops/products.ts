import type { FloatType, Operand } from "@backplane/core";
import { listed, refuse } from "../errors.js";
import { contiguous, realize } from "../lazy/fusion.js";
import { placeOf, Value } from "../value.js";
import { broadcastShapes, contiguousStrides, type Shape, sizeOf } from "../view/shape.js";
import { operation, type TensorOperation } from "./operation.js";

/** A matrix, or a batch of them, as gemm takes it. */
interface Matrices {
  readonly place: Operand;
  readonly transposed: boolean;
  readonly ld: number;
  /** Elements from one to the next. */
  readonly stride: number;
  /** A copy that somebody must release. */
  readonly copy: Value | undefined;
}

/** C = A B of the last two axes; the axes before them broadcast. Inputs: A, B of at least two axes. */
export const matmul: TensorOperation<undefined> = operation("matmul", ([a, b]) => {
  const [m, k] = a!.shape.slice(-2) as [number, number];
  const [rows, n] = b!.shape.slice(-2) as [number, number];
  checkProduct("matmul", a!, b!, k, rows);
  const batchShape = broadcastShapes("matmul", a!.shape.slice(0, -2), b!.shape.slice(0, -2));
  const result = Value.allocate(a!.backend, a!.dtype, [...batchShape, m, n]);
  const batch = sizeOf(batchShape);
  if (b!.shape.length === 2 && batch !== 1) {
    // One product with all the rows of A.
    multiply(result, [batch * m, n, k], { a: contiguous(a!), lda: k }, matricesOf(b!, []));
    return result;
  }
  const ofA = matricesOf(a!, batchShape);
  const ofB = matricesOf(b!, batchShape);
  if (batch === 1) multiply(result, [m, n, k], { a: ofA.place, lda: ofA.ld, transA: ofA.transposed }, ofB);
  else
    a!.backend.batchedGemm({
      ...{ batch, m, n, k, dtype: a!.dtype as FloatType },
      ...{ a: ofA.place, lda: ofA.ld, transA: ofA.transposed, strideA: ofA.stride },
      ...{ b: ofB.place, ldb: ofB.ld, transB: ofB.transposed, strideB: ofB.stride },
      c: placeOf(result),
    });
  ofA.copy?.release();
  ofB.copy?.release();
  return result;
});

/** y = x W + b; inputs: x [..., inputs], W [inputs, outputs] and, if there is one, b [outputs]. */
export const linear: TensorOperation<undefined> = operation("linear", ([x, w, bias]) => {
  const inputs = x!.shape.at(-1)!;
  if (w!.shape.length !== 2)
    refuse("linear", "weight", `has shape ${listed(w!.shape)}; allowed: [inputs, outputs]`);
  const [rows, n] = w!.shape as readonly [number, number];
  checkProduct("linear", x!, w!, inputs, rows);
  if (bias !== undefined) {
    if (bias.dtype !== x!.dtype)
      refuse("linear", "bias", `is of type ${bias.dtype}; allowed: ${x!.dtype}, as the input`);
    if (bias.shape.length !== 1 || bias.shape[0] !== n)
      refuse("linear", "bias", `has shape ${listed(bias.shape)}; allowed: [${n}]`);
  }
  const result = Value.allocate(x!.backend, x!.dtype, [...x!.shape.slice(0, -1), n]);
  const m = sizeOf(x!.shape.slice(0, -1));
  const matrix = x!.shape.length === 2 ? matricesOf(x!, []) : undefined;
  const left =
    matrix === undefined
      ? { a: contiguous(x!), lda: inputs }
      : { a: matrix.place, lda: matrix.ld, transA: matrix.transposed };
  multiply(result, [m, n, inputs], left, matricesOf(w!, []), bias);
  return result;
});

function multiply(
  result: Value,
  [m, n, k]: readonly [number, number, number],
  left: { readonly a: Operand; readonly lda: number; readonly transA?: boolean },
  right: Matrices,
  bias?: Value,
): void {
  const c = placeOf(result);
  const dtype = result.dtype as FloatType;
  const right_ = { b: right.place, ldb: right.ld, transB: right.transposed };
  if (bias === undefined) result.backend.gemm({ m, n, k, ...left, ...right_, c, dtype });
  else result.backend.gemm({ m, n, k, ...left, ...right_, c, dtype, bias: contiguous(bias) });
}

function checkProduct(name: string, a: Value, b: Value, columns: number, rows: number): void {
  if (a.dtype !== "f32" && a.dtype !== "f16")
    refuse(name, "dtype", `is ${a.dtype}; allowed: f32, f16`, "UNSUPPORTED");
  if (a.dtype !== b.dtype)
    refuse(name, "dtypes", `are ${a.dtype} and ${b.dtype}; allowed: one type (use cast)`);
  if (columns !== rows)
    refuse(
      name,
      "shapes",
      `are ${listed(a.shape)} and ${listed(b.shape)}; allowed: as many columns of the first as rows of the second`,
    );
}

/** How gemm finds the matrices of a value, repeated to a batch. Copies what it cannot take as it is. */
function matricesOf(value: Value, batchShape: Shape): Matrices {
  realize(value);
  const given = layoutOf(value, batchShape);
  if (given !== undefined) return { place: placeOf(value), ...given, copy: undefined };
  contiguous(value);
  const compact = layoutOf(value, batchShape);
  if (compact !== undefined) return { place: placeOf(value), ...compact, copy: undefined };
  // The batch repeats along some axes, and not along others.
  const { backend, dtype, shape } = value;
  const { shape: repeated, strides } = value.view.expand([...batchShape, ...shape.slice(-2)]);
  const copy = Value.allocate(backend, dtype, repeated);
  backend.copy({
    shape: repeated,
    input: placeOf(value),
    inputStrides: strides,
    output: placeOf(copy),
    dtype,
  });
  return { place: placeOf(copy), ...layoutOf(copy, batchShape)!, copy };
}

function layoutOf(
  { shape, strides: given }: Value,
  batchShape: Shape,
): Pick<Matrices, "transposed" | "ld" | "stride"> | undefined {
  const strides = given ?? contiguousStrides(shape);
  const rank = shape.length;
  const [rows, columns] = [shape[rank - 2]!, shape[rank - 1]!];
  const [down, across] = [strides[rank - 2]!, strides[rank - 1]!];
  const stride = batchStride(shape.slice(0, -2), strides.slice(0, -2), batchShape);
  if (stride === undefined) return undefined;
  if ((across === 1 || columns === 1) && (rows === 1 || down >= columns))
    return { transposed: false, ld: rows === 1 ? columns : down, stride };
  if ((down === 1 || rows === 1) && (columns === 1 || across >= rows))
    return { transposed: true, ld: columns === 1 ? rows : across, stride };
  return undefined;
}

/** The distance from one matrix to the next, if there is a single one. */
function batchStride(shape: Shape, strides: readonly number[], batchShape: Shape): number | undefined {
  let stride: number | undefined;
  let next = 0;
  for (let i = batchShape.length - 1; i >= 0; i--) {
    const extent = batchShape[i]!;
    if (extent === 1) continue;
    const axis = shape.length - batchShape.length + i;
    const own = axis < 0 || shape[axis] === 1 ? 0 : strides[axis]!;
    if (own < 0) return undefined;
    if (stride === undefined) stride = own;
    else if (own !== next) return undefined;
    next = own * extent;
  }
  return stride ?? 0;
}
