// Part of the worker's script: imports by relative path only.
import { nodeProcess } from "../node-process.js";

/** The used part of npm `koffi` (https://koffi.dev), an optional peer that calls C functions. */
export interface Koffi {
  load(path: string): NativeLibrary;
  /** Returns the address of the first byte of a view. */
  address(view: ArrayBufferView): bigint;
}

export interface NativeLibrary {
  /** Throws if the library has no such function. Pointers are passed as numbers. */
  func(name: string, result: string, parameters: readonly string[]): NativeFunction;
}

// biome-ignore lint/suspicious/noExplicitAny: its parameters are known only to the library
export type NativeFunction = (...args: any[]) => any;

/**
 * Loads koffi on the calling thread. It is looked up at run time, so that neither pages nor bundlers nor the
 * types of this package need it. Throws with the reason if it is missing.
 */
export function loadKoffi(): Koffi {
  if (nodeProcess === undefined) throw new Error("native libraries need Node.js");
  const { createRequire } = nodeProcess.getBuiltinModule("node:module");
  try {
    return createRequire(import.meta.url)("koffi") as Koffi;
  } catch (error) {
    throw new Error(`npm koffi cannot be loaded: ${firstLine(error)}`);
  }
}

/** Returns a function of a library that not every version has. */
export function optionalFunction(
  library: NativeLibrary,
  name: string,
  result: string,
  parameters: readonly string[],
): NativeFunction | undefined {
  try {
    return library.func(name, result, parameters);
  } catch {
    return undefined;
  }
}

export function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0]!;
}
