import type { ComputeBackend, DeviceHandle } from "@backplane/core";
import { assert } from "chai";
import { rejects } from "./fake-driver.js";
import { type Bench, openBench, pattern } from "./swapping.js";

export async function bytesOf({ backend }: Bench, handle: DeviceHandle, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  await backend.copyDtoH(bytes, handle);
  return bytes;
}

/** A bench whose backend "a" has lost its device with two allocations and an empty one. */
export async function lostBench(prepare: Parameters<typeof openBench>[0] = {}) {
  const bench = await openBench(prepare);
  const { backend } = bench;
  const one = backend.alloc(8);
  const two = backend.alloc(16);
  const empty = backend.alloc(0);
  backend.copyHtoD(one, pattern(8, 1));
  backend.copyHtoD(two, pattern(16, 2));
  bench.driver("a").events!.lost("power");
  return { ...bench, bench, one, two, empty };
}

/**
 * Where the device is lost in the first `init`, and a listener asks for another at once: that is the one
 * that everybody gets from then on. Disposes the backend.
 */
export async function retryInListener(backend: ComputeBackend): Promise<void> {
  let retried: Promise<void> | undefined;
  backend.onLost(() => {
    retried = backend.init();
  });
  await rejects("DEVICE_LOST", backend.init());
  assert.equal(backend.init(), retried);
  await retried;
  assert.equal(backend.init(), retried);
  backend.alloc(4);
  await backend.dispose();
}
