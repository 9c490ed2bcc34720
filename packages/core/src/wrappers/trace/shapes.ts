import { dtypeBytes } from "../../dtype.js";
import { TracedOperand, type TraceRecord } from "./format.js";

type Fits = (value: unknown) => boolean;

const isCount: Fits = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isNumber: Fits = (value) => typeof value === "number";
const isBoolean: Fits = (value) => typeof value === "boolean";
const isText: Fits = (value) => typeof value === "string";
const isBytes: Fits = (value) => value instanceof Uint8Array;
const isOperand: Fits = (value) => value instanceof TracedOperand;
const isElementType: Fits = (value) => isText(value) && Object.hasOwn(dtypeBytes, value as string);
const isArguments: Fits = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isCall: Fits = (value) => Array.isArray(value) && isRecordOf(callShapes, value);

function optional(fits: Fits): Fits {
  return (value) => value === undefined || fits(value);
}

function listOf(fits: Fits): Fits {
  return (value) => Array.isArray(value) && value.every(fits);
}

function tuple(...shape: readonly Fits[]): Fits {
  return (value) =>
    Array.isArray(value) && value.length === shape.length && shape.every((fits, i) => fits(value[i]));
}

type Shapes<Kind extends string> = Readonly<Record<Kind, readonly Fits[]>>;

/** What each kind of call has after its kind. */
const callShapes: Shapes<"copyDtoD" | "fill" | "run"> = {
  copyDtoD: [isOperand, isOperand, isCount],
  fill: [isOperand, isNumber, isCount, isElementType],
  run: [isText, isArguments],
};

/** What each kind of record has after its kind. */
const recordShapes: Shapes<TraceRecord[0]> = {
  ...callShapes,
  alloc: [isCount, isBoolean],
  free: [isCount],
  content: [isBytes],
  copyHtoD: [isOperand, isCount],
  copyDtoH: [isOperand, isCount, isBoolean],
  read: [isCount, optional(isCount), optional(isText)],
  synchronize: [],
  flush: [],
  trim: [],
  record: [listOf(tuple(isBoolean, listOf(isCall)))],
  play: [isCount, listOf(tuple(isOperand, isOperand)), listOf(tuple(isCount, listOf(isCall)))],
  forget: [isCount],
  omitted: [isText, isText],
  end: [],
};

function isRecordOf(shapes: Shapes<string>, [kind, ...fields]: readonly unknown[]): boolean {
  return isText(kind) && Object.hasOwn(shapes, kind as string) && tuple(...shapes[kind as string]!)(fields);
}

/** Returns what is wrong with a record that was read; undefined if nothing is. */
export function problemOf(record: unknown): string | undefined {
  const kind: unknown = Array.isArray(record) ? record[0] : undefined;
  if (!isText(kind) || !Object.hasOwn(recordShapes, kind as string))
    return "there is a record of an unknown kind";
  if (!isRecordOf(recordShapes, record as readonly unknown[]))
    return `a record of ${String(kind)} has other fields than it should`;
  return undefined;
}
