import { type Arg, type FunctionBuilder, i32, type Local, type Value } from "../../wasm/index.js";
import type { WindowAxis } from "../images/index.js";

/** The windows that may have a place: [first, end). */
export interface OverLocals {
  readonly first: Local<"i32">;
  readonly end: Local<"i32">;
}

export function overLocals(f: FunctionBuilder): OverLocals {
  return { first: f.local("i32"), end: f.local("i32") };
}

/** Sets which of `windows` windows may have one of `count` places from `place` on. If they are dilated, some have none. */
export function setOver(
  f: FunctionBuilder,
  over: OverLocals,
  { taps, step, spread, before }: WindowAxis,
  windows: Value<"i32">,
  place: Arg<"i32">,
  count: Arg<"i32">,
): void {
  const padded = f.let(i32.add(place, before));
  const beyond = f.let(i32.sub(padded, i32.mul(i32.sub(taps, 1), spread)));
  f.set(over.first, 0);
  f.if(i32.gtS(beyond, 0), () => f.set(over.first, i32.divU(i32.sub(i32.add(beyond, step), 1), step)));
  const last = i32.divU(i32.sub(i32.add(padded, count), 1), step);
  f.set(over.end, i32.minU(i32.add(last, 1), windows));
}

/** Calls `body` for each window in turn that has the place. */
export function forWindows(
  f: FunctionBuilder,
  over: OverLocals,
  { step, spread, before }: WindowAxis,
  place: Local<"i32">,
  window: Local<"i32">,
  body: () => void,
): void {
  f.set(window, over.first);
  f.forLocal(window, over.end, () => {
    const distance = i32.sub(i32.add(place, before), i32.mul(window, step));
    // Few windows are dilated, and a division takes long.
    const has = f.let(i32.const(1));
    f.if(i32.gtU(spread, 1), () => f.set(has, i32.eqz(i32.remU(distance, spread))));
    f.if(has, body);
  });
}
