import type { ComputeBackend } from "@backplane/core";
import type { Law, LawContext } from "../law.js";
import { settled } from "../patience.js";

/** A law that needs to know how a device is lost. */
export function lossLaw(name: string, run: (context: LawContext) => Promise<void>): Law {
  return { topic: "loss", name, needsLoss: true, run };
}

/** Makes a backend lose its device; resolves when it has told its listeners. */
export async function lose({ loseDevice }: LawContext, backend: ComputeBackend): Promise<void> {
  let stop = () => {};
  const told = new Promise<void>((resolve) => {
    stop = backend.onLost(() => resolve());
  });
  try {
    await settled(loseDevice(backend), "loseDevice");
    await settled(told, "onLost, after the device was lost");
  } finally {
    stop();
  }
}

export type Outcome<Value> = { readonly value: Value } | { readonly error: unknown };

/** How a promise ends; it need not be looked at in time. */
export function outcomeOf<Value>(promise: Promise<Value>): Promise<Outcome<Value>> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
}

/** Waits a turn of the event loop, so that late reports of a lost device arrive. */
export const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));
