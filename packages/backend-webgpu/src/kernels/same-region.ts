import type { Region } from "@backplane/core";

/** Whether an operation writes exactly over its input. */
export function isSameRegion(a: Region<unknown>, b: Region<unknown>): boolean {
  return a.memory === b.memory && a.byteOffset === b.byteOffset && a.byteLength === b.byteLength;
}
