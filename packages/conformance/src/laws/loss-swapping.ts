import { BackendRegistry, type DeviceHandle, SwitchableBackend } from "@backplane/core";
import { bytesOf, check, pattern, refuses, rejects, sameBytes } from "../kit/checks.js";
import type { Law, LawContext } from "../law.js";
import { settled } from "../patience.js";
import { createReferenceBackend } from "../reference.js";
import { lossLaw as law, lose, outcomeOf, pause } from "./loss-support.js";
import { checkArithmetic, provider } from "./swapping.js";

/** A switchable backend on the one under test and the reference, with something in it. */
async function openSwitchable({ unopened }: LawContext): Promise<{
  readonly backend: SwitchableBackend;
  readonly handle: DeviceHandle;
  readonly large: DeviceHandle;
  readonly empty: DeviceHandle;
}> {
  // Providers create at once, the suite only after a while.
  const instances = [await unopened(), await unopened()];
  const registry = new BackendRegistry([
    provider("subject", () => instances.shift()!),
    provider("reference", createReferenceBackend),
  ]);
  const backend = new SwitchableBackend(registry, "subject");
  await settled(backend.init(), "init");
  const [handle, large, empty] = [backend.alloc(12), backend.alloc(100_003), backend.alloc(0)];
  backend.copyHtoD(handle, pattern(12, 1));
  backend.copyHtoD(large, pattern(100_003, 2));
  return { backend, handle, large, empty };
}

function sameHandles(got: readonly { readonly handle: DeviceHandle }[], expected: readonly DeviceHandle[]) {
  const listed = got.map(({ handle }) => handle);
  check(
    listed.length === expected.length && expected.every((handle) => listed.includes(handle)),
    `${listed.length} allocations are said to be lost; they are ${expected.length}`,
  );
}

/** Lost contents stay out of reach until they are written as a whole. */
async function checkRevival(backend: SwitchableBackend, handle: DeviceHandle, bytes: number): Promise<void> {
  await rejects("DEVICE_LOST", "a read of lost contents", () => backend.copyDtoH(new Uint8Array(1), handle));
  refuses("DEVICE_LOST", "a write of a part", () => backend.copyHtoD(handle, new Uint8Array(bytes - 1)));
  refuses("DEVICE_LOST", "a fill of a part", () =>
    backend.fill({ handle, byteOffset: 1 }, 7, bytes - 1, "u8"),
  );
  await rejects("DEVICE_LOST", "a read after writes of a part", () =>
    backend.copyDtoH(new Uint8Array(1), handle),
  );
  const image = pattern(bytes, 9);
  backend.copyHtoD(handle, image);
  sameBytes(await bytesOf(backend, handle, bytes), image, "what was written in place of lost contents");
}

/** Laws on how a switchable backend handles a loss. */
export const lossSwappingLaws: readonly Law[] = [
  law("a swap away from a lost backend tells what is lost, and a whole write revives it", async (context) => {
    for (const to of ["reference", "subject"]) {
      const { backend, handle, large, empty } = await openSwitchable(context);
      try {
        await lose(context, backend.inner);
        await rejects("DEVICE_LOST", "copyDtoH", () => backend.copyDtoH(new Uint8Array(12), handle));
        refuses("DEVICE_LOST", "fill of all bytes before the swap", () => backend.fill(handle, 0, 3));
        const { lost, allocations } = await settled(backend.use(to), "use");
        sameHandles(lost, [handle, large]);
        check(allocations === 1, `${allocations} allocations were moved, where one has nothing to lose`);
        check(backend.current === to, `the backend in use is ${backend.current}`);
        check(backend.memory().liveAllocations === 3, "the statistics changed with the loss");
        await checkRevival(backend, handle, 12);
        await checkRevival(backend, large, 100_003);
        backend.copyHtoD(empty, new Uint8Array(0));
        check(
          backend.lost.length === 0,
          `${backend.lost.length} allocations are lost after all were written`,
        );
        await checkArithmetic(backend, "after the swap");
        for (const one of [handle, large, empty]) backend.free(one);
        await settled(backend.synchronize(), "synchronize");
        check(backend.memory().liveBytes === 0, "bytes are live after everything was freed");
      } finally {
        await settled(backend.dispose(), "dispose");
      }
    }
  }),

  law("a backend that is lost during a swap takes nothing else with it", (context) => {
    // Microtasks for backends that are done at once, milliseconds for the others.
    const cases = [
      ...[0, 1, 4, 16, 64, 256].map((microtasks) => ({ microtasks, milliseconds: 0 })),
      ...[1, 3].map((milliseconds) => ({ microtasks: 0, milliseconds })),
    ];
    const tryOne = async ({ microtasks, milliseconds }: (typeof cases)[number]) => {
      const { backend, handle, large, empty } = await openSwitchable(context);
      try {
        const first = backend.inner;
        const leaving = outcomeOf(backend.use("reference"));
        const target = new Uint8Array(12);
        const kept = outcomeOf(backend.copyDtoH(target, handle));
        for (let turn = 0; turn < microtasks; turn++) await undefined;
        if (milliseconds > 0) await pause(milliseconds);
        // The swap may already have closed it; then it has nothing to lose.
        if (backend.current === "subject") await settled(context.loseDevice(first), "loseDevice");
        const left = await settled(leaving, "use");
        const read = await settled(kept, "a read made during the swap");
        if ("error" in read) await rejects("DEVICE_LOST", "the read", () => Promise.reject(read.error));
        else sameBytes(target, pattern(12, 1), "a read made during the swap");
        if ("error" in left)
          await rejects("DEVICE_LOST", "use of another backend", () => Promise.reject(left.error));
        const { lost } = "error" in left ? await settled(backend.use("reference"), "use") : left.value;
        if (lost.length === 0) {
          // The swap was faster than the loss, and all of it must be there.
          sameBytes(await bytesOf(backend, large, 100_003), pattern(100_003, 2), "what was moved");
          sameBytes(await bytesOf(backend, handle, 12), pattern(12, 1), "what was moved");
        } else {
          sameHandles(lost, [handle, large]);
          await checkRevival(backend, large, 100_003);
          await checkRevival(backend, handle, 12);
        }
        for (const one of [handle, large, empty]) backend.free(one);
        await settled(backend.synchronize(), "synchronize");
      } finally {
        await settled(backend.dispose(), "dispose");
      }
    };
    return context.forEach(cases, tryOne, { quick: 4 });
  }),
];
