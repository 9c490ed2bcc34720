import {
  BackendError,
  type BackendProvider,
  BackendRegistry,
  type ComputeBackend,
  type DeviceHandle,
  SwitchableBackend,
} from "@backplane/core";
import { bytesOf, check, law, PendingChecks, pattern, rejects, sameBytes } from "../kit/checks.js";
import type { Law, LawContext } from "../law.js";
import { settled } from "../patience.js";
import { createReferenceBackend } from "../reference.js";

const topic = "swapping";

export function provider(name: string, create: () => ComputeBackend): BackendProvider {
  return {
    name,
    create,
    probe: async () => ({ available: false, reason: "nobody asks" }),
  };
}

/** A switchable backend that starts on the backend under test and may go to the reference and back. */
async function openSwitchable(
  { unopened }: LawContext,
  others: readonly BackendProvider[] = [],
): Promise<SwitchableBackend> {
  // Providers create at once, the suite only after a while.
  const instances = [await unopened(), await unopened()];
  const subject = provider("subject", () => instances.shift()!);
  const registry = new BackendRegistry([subject, provider("reference", createReferenceBackend), ...others]);
  const backend = new SwitchableBackend(registry, "subject");
  await settled(backend.init(), "init");
  return backend;
}

const sizes = [1, 3, 4, 0, 257, 100_003, 8] as const;

interface Held {
  readonly handle: DeviceHandle;
  readonly image: Uint8Array<ArrayBuffer>;
}

/** Live allocations whose content comes out of work that may still be under way. */
function populate(backend: ComputeBackend): Held[] {
  return sizes.map((size, i) => {
    const handle = backend.alloc(size);
    const image = pattern(size, i);
    const scratch = backend.alloc(size, { zero: false });
    backend.copyHtoD(scratch, image);
    backend.copyDtoD(handle, scratch, size);
    backend.free(scratch);
    if (size > 4) {
      backend.fill({ handle, byteOffset: 4 }, 77, 3, "u8");
      image.fill(77, 4, 7);
    }
    return { handle, image };
  });
}

async function checkHeld(backend: ComputeBackend, held: readonly Held[], when: string): Promise<void> {
  for (const { handle, image } of held)
    sameBytes(await bytesOf(backend, handle, image.length), image, `${image.length} bytes ${when}`);
}

/** Checks exact arithmetic on the backend in use, if it has it. */
export async function checkArithmetic(backend: ComputeBackend, when: string): Promise<void> {
  if (!backend.supports("unary", { kind: "neg" })) return;
  const values = Float32Array.from({ length: 50 }, (_, i) => i + 1);
  const handle = backend.alloc(values.byteLength);
  backend.copyHtoD(handle, values);
  backend.unary({ kind: "neg", n: values.length, input: handle, output: handle });
  const got = await bytesOf(backend, handle, values.byteLength);
  backend.free(handle);
  sameBytes(
    got,
    values.map((value) => -value),
    `neg ${when}`,
  );
}

export const swappingLaws: readonly Law[] = [
  law(topic, "handles and contents outlive a swap to another backend and back", async (context) => {
    const backend = await openSwitchable(context);
    try {
      const held = populate(backend);
      const read = new Uint8Array(100_003);
      const pending = backend.copyDtoH(read, held[5]!.handle);
      const before = backend.memory();
      const { allocations, bytes } = await settled(backend.use("reference"), "use");
      check(allocations === sizes.length, `${allocations} of ${sizes.length} allocations were moved`);
      check(bytes === before.liveBytes, `${bytes} of ${before.liveBytes} bytes were moved`);
      await settled(pending, "a read from before the swap");
      sameBytes(read, held[5]!.image, "a read from before the swap");
      await checkHeld(backend, held, "after the swap");
      await checkArithmetic(backend, "after the swap");

      // Changed over there, so that coming back cannot find the old bytes again.
      backend.fill(held[0]!.handle, 9, 1, "u8");
      held[0]!.image.fill(9);
      backend.copyDtoD({ handle: held[5]!.handle, byteOffset: 1 }, held[4]!.handle, 257);
      held[5]!.image.set(held[4]!.image, 1);
      await settled(backend.use("subject"), "use");
      check(backend.current === "subject", `the backend in use is ${backend.current}`);
      await checkHeld(backend, held, "after coming back");
      await checkArithmetic(backend, "after coming back");
      const { liveAllocations, liveBytes } = backend.memory();
      check(
        liveAllocations === before.liveAllocations && liveBytes === before.liveBytes,
        "the statistics changed by swapping",
      );
      for (const { handle } of held) backend.free(handle);
      check(backend.memory().liveBytes === 0, "bytes are live after everything was freed");
    } finally {
      await backend.dispose();
    }
  }),

  law(topic, "calls made during a swap are carried out in order", async (context) => {
    const backend = await openSwitchable(context);
    try {
      for (const target of ["reference", "subject"]) {
        const held = populate(backend);
        const swapped = backend.use(target);
        const reads = new PendingChecks();
        // A turn of the event loop each, so that the calls meet the swap in all of its stages.
        for (let turn = 0; turn < 12; turn++) {
          const { handle, image } = held[4 + (turn % 2)]!;
          backend.copyHtoD({ handle, byteOffset: turn }, pattern(20, turn));
          image.set(pattern(20, turn), turn);
          const short = backend.alloc(33);
          backend.copyDtoD({ handle: short, byteOffset: 2 }, { handle, byteOffset: turn }, 31);
          const expected = new Uint8Array(33);
          expected.set(image.subarray(turn, turn + 31), 2);
          const what = `a copy made in turn ${turn} of the swap to ${target}`;
          reads.add(bytesOf(backend, short, 33).then((got) => sameBytes(got, expected, what)));
          backend.free(short);
          await new Promise((resolve) => setTimeout(resolve, 0));
        }
        await settled(swapped, "use");
        await reads.all();
        await checkHeld(backend, held, `after the swap to ${target}`);
        for (const { handle } of held) backend.free(handle);
      }
      await settled(backend.synchronize(), "synchronize");
    } finally {
      await backend.dispose();
    }
  }),

  law(topic, "a swap that fails loses nothing", async (context) => {
    const failing = (method: "init" | "alloc") =>
      provider(`fails in ${method}`, () => {
        const other = createReferenceBackend();
        const error = new BackendError(method === "init" ? "UNSUPPORTED" : "OUT_OF_MEMORY", "as asked for");
        if (method === "init") other.init = () => Promise.reject(error);
        else
          other.alloc = () => {
            throw error;
          };
        return other;
      });
    const backend = await openSwitchable(context, [failing("init"), failing("alloc")]);
    try {
      const held = populate(backend);
      const before = backend.memory();
      await rejects("UNSUPPORTED", "use of a backend that does not open", () => backend.use("fails in init"));
      await rejects("OUT_OF_MEMORY", "use of a backend without memory", () => backend.use("fails in alloc"));
      await rejects("INVALID_ARGUMENT", "use of an unknown backend", () => backend.use("nonsense"));
      check(backend.current === "subject", `the backend in use is ${backend.current}`);
      check(backend.memory().liveBytes === before.liveBytes, "the statistics changed by failed swaps");
      await checkHeld(backend, held, "after failed swaps");
      await checkArithmetic(backend, "after failed swaps");
      await settled(backend.use("reference"), "use");
      await checkHeld(backend, held, "after a swap that followed failed ones");
    } finally {
      await backend.dispose();
    }
  }),
];
