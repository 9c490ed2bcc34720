import type { Resizing } from "@backplane/core";
import type { Local } from "../../wasm/index.js";

/** The parameters of a kernel that are a `Resizing` of core. */
export const resizingTypes = {
  height: "i32",
  width: "i32",
  outHeight: "i32",
  outWidth: "i32",
  factorY: "i32",
  shiftY: "i32",
  divisorY: "i32",
  factorX: "i32",
  shiftX: "i32",
  divisorX: "i32",
} as const;

export type ResizingName = keyof typeof resizingTypes;
type Resized<Of> = Readonly<Record<ResizingName, Of>>;

export function resizingParameters({ height, width, outHeight, outWidth, y, x }: Resizing): Resized<number> {
  return {
    ...{ height, width, outHeight, outWidth },
    ...{ factorY: y.factor, shiftY: y.shift, divisorY: y.divisor },
    ...{ factorX: x.factor, shiftX: x.shift, divisorX: x.divisor },
  };
}

/** A `ResizedAxis` of core in locals, with the extents of the input and of the output. */
export interface AxisLocals {
  readonly size: Local<"i32">;
  readonly extent: Local<"i32">;
  readonly factor: Local<"i32">;
  readonly shift: Local<"i32">;
  readonly divisor: Local<"i32">;
}

export function resizedAxes(p: Resized<Local<"i32">>): Readonly<Record<"y" | "x", AxisLocals>> {
  return {
    y: { size: p.height, extent: p.outHeight, factor: p.factorY, shift: p.shiftY, divisor: p.divisorY },
    x: { size: p.width, extent: p.outWidth, factor: p.factorX, shift: p.shiftX, divisor: p.divisorX },
  };
}
