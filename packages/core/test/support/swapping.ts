import { BackendRegistry, SwitchableBackend } from "@backplane/core";
import { assert } from "chai";
import { type FakeDriver, type FakeProvider, fakeProvider } from "./fake-driver.js";

/** A switchable backend over three fake ones, opened on "a". */
export interface Bench {
  readonly backend: SwitchableBackend;
  readonly providers: Readonly<Record<"a" | "b" | "c", FakeProvider>>;
  /** The newest driver of a provider. */
  driver(name: "a" | "b" | "c"): FakeDriver;
  /** Checks that every driver ever made is closed, except for those named. */
  onlyOpen(...open: FakeDriver[]): void;
}

export async function openBench(
  prepare: Partial<Record<"a" | "b" | "c", (driver: FakeDriver) => void>> = {},
): Promise<Bench> {
  const providers = {
    a: fakeProvider("a", prepare.a),
    b: fakeProvider("b", prepare.b),
    c: fakeProvider("c", prepare.c),
  };
  const backend = new SwitchableBackend(new BackendRegistry(Object.values(providers)));
  await backend.init();
  return {
    backend,
    providers,
    driver: (name) => providers[name].drivers.at(-1)!,
    onlyOpen: (...open) => {
      for (const provider of Object.values(providers))
        for (const driver of provider.drivers) {
          assert.equal(driver.isOpen, open.includes(driver), `${driver.name} is open`);
          if (!driver.isOpen) assert.equal(driver.live.size, 0, `${driver.name} holds memory`);
        }
    },
  };
}

export function pattern(length: number, seed: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  let state = seed;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}
