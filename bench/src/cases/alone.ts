import type { TimedCall } from "@backplane/conformance";
import type { OperationName } from "@backplane/core";

type Rest = Readonly<Record<string, unknown>>;
type Call = Pick<TimedCall, "rest" | "before" | "elementwise" | "parts"> & {
  readonly operation: OperationName;
};

/** A smaller call of the same operation, made of so much of a large one that it has the wanted result. */
export interface Alone {
  /** The same for results that the same smaller call has. */
  readonly number: number;
  /** All of its arguments but the operands. */
  readonly rest: Rest;
  /** The elements that it has of an operand, of which the large call has `count`. */
  readonly slice: (operand: string, count: number) => Slice;
  /** The place of the result among those of the smaller call. */
  readonly own: number;
}

export interface Slice {
  readonly count: number;
  /** The place of each of these elements in the operand of the large call. */
  readonly place: (index: number) => number;
}

/** Returns the smaller call that has result `index`, of a call whose first output has `elements`. */
export function aloneOf(call: Call, elements: number, index: number): Alone {
  const { operation, rest, before = {}, elementwise, parts = { count: 1, rest: {} } } = call;
  const line = lineOf(operation, rest);
  if (line !== undefined) return ofLine(line, elements, index);
  if (operation === "random") return single({ ...rest, count: 1, offset: index }, index, index);
  if (elementwise) return single({ ...rest, ...("n" in rest ? { n: 1 } : { shape: [1] }) }, index, index);
  if (operation === "copy") {
    const shape = rest.shape as readonly number[];
    const { inputStrides: strides = stridesOf(shape), outputStrides, ...others } = rest;
    const place = placeAt(shape, strides as readonly number[], index) + (before.input ?? 0);
    return single({ ...others, shape: [1] }, index, place);
  }
  if (operation === "rope") return ofRow(rest, index);
  const count = operation === "quantize" ? (rest.n as number) : parts.count;
  const each = elements / count;
  const part = Math.floor(index / each);
  return {
    ...{ number: part, own: index - part * each },
    rest: { ...rest, ...(operation === "quantize" ? { n: 1 } : parts.rest) },
    slice: (_, all) => ({ count: all / count, place: (i) => (part * all) / count + i }),
  };
}

/** A call on one element of each operand. */
function single(rest: Rest, number: number, place: number): Alone {
  return { number, rest, own: 0, slice: () => ({ count: 1, place: () => place }) };
}

/** Elements along an axis, whose results need nothing of other lines. */
export interface Line {
  readonly length: number;
  readonly lines: number;
  /** Elements from one of a line to the next. */
  readonly step: number;
  /** The arguments of a call on a single line. */
  readonly rest: Rest;
}

const alongAxis: readonly OperationName[] = ["softmax", "softmaxGradient", "argReduce", "scan"];
const alongRows: readonly OperationName[] = ["normalize", "normalizeGradient"];

/** The lines of a call that has them. */
export function lineOf(operation: OperationName, rest: Rest): Line | undefined {
  if (alongRows.includes(operation))
    return {
      ...{ length: rest.size as number, lines: rest.rows as number, step: 1 },
      rest: { ...rest, rows: 1 },
    };
  const axes = rest.axes as readonly number[] | undefined;
  if (!alongAxis.includes(operation) && !(operation === "reduce" && axes?.length === 1)) return undefined;
  const shape = rest.shape as readonly number[];
  const axis = axes?.[0] ?? (rest.axis as number);
  const length = shape[axis]!;
  const alone = axes === undefined ? { axis: 0 } : { axes: [0] };
  const strides = stridesOf(shape);
  return {
    ...{ length, lines: (strides[0]! * shape[0]!) / length, step: strides[axis]! },
    rest: { ...rest, shape: [length], ...alone },
  };
}

/** Operands of a row that all rows share. */
const shared: readonly string[] = ["weight", "bias"];

function ofLine({ length, step, rest, lines }: Line, elements: number, index: number): Alone {
  // An output without the axis has one element for each line.
  const isReduced = elements === lines;
  const number = isReduced ? index : Math.floor(index / (length * step)) * step + (index % step);
  const first = Math.floor(number / step) * length * step + (number % step);
  return {
    ...{ number, rest, own: isReduced ? 0 : Math.floor(index / step) % length },
    slice: (operand, count) => {
      if (shared.includes(operand)) return { count, place: (i) => i };
      return count === lines
        ? { count: 1, place: () => number }
        : { count: length, place: (i) => first + i * step };
    },
  };
}

/** A row of one head at one place, which has a row of the tables. */
function ofRow(rest: Rest, index: number): Alone {
  const { size, rows } = rest as { readonly size: number; readonly rows: number };
  const row = Math.floor(index / size);
  return {
    ...{ number: row, own: index % size },
    rest: { ...rest, batch: 1, heads: 1, rows: 1, length: 1 },
    slice: (operand) => {
      const [count, first] = operand === "input" ? [size, row] : [size / 2, row % rows];
      return { count, place: (i) => first * count + i };
    },
  };
}

function stridesOf(shape: readonly number[]): number[] {
  const strides = shape.map(() => 1);
  for (let axis = shape.length - 2; axis >= 0; axis--) strides[axis] = strides[axis + 1]! * shape[axis + 1]!;
  return strides;
}

/** The place of an element of an array, by its number in the order of the shape. */
function placeAt(shape: readonly number[], strides: readonly number[], index: number): number {
  let [place, left] = [0, index];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    place += (left % shape[axis]!) * strides[axis]!;
    left = Math.floor(left / shape[axis]!);
  }
  return place;
}
