import { createRequire } from "node:module";
import { firstLine } from "../errors.js";

/** The used part of npm `koffi` (https://koffi.dev), an optional peer that calls C functions. */
export interface Koffi {
  load(path: string, options?: { readonly global?: boolean }): NativeLibrary;
}

export interface NativeLibrary {
  /** Throws if the library has no such function. Pointers are bigints, or views whose first byte is meant. */
  func(name: string, result: string, parameters: readonly string[]): NativeFunction;
  /** Returns the address of a symbol. Throws if there is none. */
  symbol(name: string): bigint;
}

// biome-ignore lint/suspicious/noExplicitAny: its parameters are known only to the library
export type NativeFunction = (...args: any[]) => any;

/** Looked up at run time, so that nobody needs it for a communicator of one. Throws with the reason if it is missing. */
export function loadKoffi(): Koffi {
  try {
    return createRequire(import.meta.url)("koffi") as Koffi;
  } catch (error) {
    throw new Error(`npm koffi cannot be loaded: ${firstLine(error)}`);
  }
}
