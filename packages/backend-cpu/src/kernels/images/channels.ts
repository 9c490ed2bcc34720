import { type FunctionBuilder, i32, type Local, type Value } from "../../wasm/index.js";
import type { StoredElements } from "../elements/index.js";

/** Vectors of channels that are in registers together. */
const blockVectors = 4;

/** How vectors of channels are stored: all of their lanes, or as many as there are channels left. */
export type StoreVectors = (
  elements: StoredElements,
  at: Local<"i32">,
  values: readonly Value<"v128">[],
) => void;

/**
 * Calls `body` for the channels of a pixel, some vectors at a time, which begin at `channel`. The body ends with stores to places
 * that it moves on by whole vectors: afterwards, `correct` is called with how many channels too far that was.
 */
export function forChannels(
  f: FunctionBuilder,
  inner: Local<"i32">,
  channel: Local<"i32">,
  body: (vectors: number, store: StoreVectors) => void,
  correct: (passed: Value<"i32">) => void,
): void {
  f.set(channel, 0);
  const rest = f.let(inner);
  f.while(i32.geU(rest, 4 * blockVectors), () => {
    body(blockVectors, (elements, at, values) => {
      for (const [i, value] of values.entries()) elements.store(at, value, 4 * i * elements.bytes);
    });
    f.add(channel, 4 * blockVectors);
    f.add(rest, -4 * blockVectors);
  });
  f.while(i32.gtS(rest, 0), () => {
    body(1, (elements, at, [value]) =>
      f.if(
        i32.geU(rest, 4),
        () => elements.store(at, value!),
        () => elements.storeFirst(at, value!, rest),
      ),
    );
    f.add(channel, 4);
    f.add(rest, -4);
  });
  correct(i32.sub(channel, inner));
}
