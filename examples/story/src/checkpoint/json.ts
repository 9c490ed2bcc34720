import { FileError } from "./file.js";

/**
 * The object that a text of a file gives as JSON. Throws a FileError if it gives none, or if `faultOf`, which may not rely on
 * any property, says what is wrong with it.
 */
export function jsonFrom<Value extends object>(
  text: string,
  faultOf: (value: Value) => string | undefined,
): Value {
  let value: Value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new FileError(`Its header is not JSON: ${(error as Error).message}`);
  }
  const fault = isObject(value) ? faultOf(value) : `it has ${JSON.stringify(value)} in place of an object`;
  if (fault !== undefined) throw new FileError(`Its header makes no sense: ${fault}.`);
  return value;
}

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Returns which of some properties are no whole numbers from 1 to 2^31 - 1; undefined if all are. */
export function faultOfCounts<Value extends object>(
  value: Value,
  names: readonly (keyof Value & string)[],
): string | undefined {
  const name = names.find((name) => !isCount(value[name]));
  return name === undefined ? undefined : `${name} is ${JSON.stringify(value[name])}`;
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) < 2 ** 31;
}
