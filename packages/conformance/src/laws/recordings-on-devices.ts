import { refuses, rejects } from "../kit/checks.js";
import type { Law } from "../law.js";
import { settled } from "../patience.js";
import { lose } from "./loss-support.js";
import { holds, recordingLaw as law, openSwitchable } from "./recordings-support.js";

/* What becomes of recordings when the backend is swapped, or loses its device. */

export const swappedRecordingLaw: Law = law(
  "a recording goes on after a swap, and during one",
  async (context) => {
    const backend = await openSwitchable(context);
    try {
      const [a, b, other] = [backend.alloc(16), backend.alloc(16), backend.alloc(100_000)];
      backend.copyHtoD(a, Int32Array.of(1, 2, 3, 4));
      const step = backend.record(
        (vary: (part: (values: { readonly first: number }) => void) => void) => {
          backend.copyDtoD(b, a, 16);
          vary(({ first }) => backend.fill({ handle: b, byteOffset: 4 * first }, 50 + first, 1, "i32"));
          backend.copyDtoD(a, { handle: b, byteOffset: 4 }, 12);
        },
        { first: 0 },
      );
      let host = [1, 2, 3, 4];
      const onHost = (first = 0) => {
        const copy = host.map((value, i) => (i === first ? 50 + first : value));
        host = [...copy.slice(1), host[3]!];
      };
      for (const to of ["reference", "subject", "reference"]) {
        step.run();
        onHost();
        const swap = backend.use(to);
        // At some of these the allocations are being moved.
        for (let turn = 0; turn < 40; turn++) {
          step.run({ values: { first: turn % 4 } });
          onHost(turn % 4);
          await undefined;
        }
        await settled(swap, "use");
        await holds(backend, a, host, `after the swap to ${to}`);
        step.run({ values: { first: 3 } });
        onHost(3);
        await holds(backend, a, host, `after a run on ${to}`);
        backend.copyHtoD(other, Int32Array.of(9, 8, 7, 6));
        step.run({ operands: new Map([[a, other]]) });
        await holds(backend, other, [8, 7, 6, 6], `other operands on ${to}`);
        await holds(backend, a, host, "operands that were replaced");
      }
      backend.free(other);
      step.run();
      backend.free(b);
      refuses("INVALID_HANDLE", "a run after a free", () => step.run());
      step.dispose();
      refuses("DISPOSED", "a run after dispose", () => step.run());
    } finally {
      await settled(backend.dispose(), "dispose");
    }
  },
);

const lost: Law = {
  ...law("a lost device takes its recordings along", async (context) => {
    const backend = await context.fresh();
    const a = backend.alloc(16);
    const step = backend.record(() => backend.fill(a, 3, 4, "i32"));
    const empty = backend.record(() => {});
    step.run();
    await lose(context, backend);
    refuses("DEVICE_LOST", "a run after the loss", () => step.run());
    refuses("DEVICE_LOST", "record after the loss", () => backend.record(() => {}));
    await settled(backend.init(), "init");
    refuses("INVALID_HANDLE", "a run on the fresh device", () => step.run());
    empty.run();
    const fresh = backend.alloc(16);
    refuses("INVALID_HANDLE", "a run with another operand on the fresh device", () =>
      step.run({ operands: new Map([[a, fresh]]) }),
    );
    using again = backend.record(() => backend.fill(fresh, 4, 4, "i32"));
    again.run();
    await holds(backend, fresh, [4, 4, 4, 4], "a recording on the fresh device");
    step.dispose();
    empty.dispose();
    await settled(backend.dispose(), "dispose");
    refuses("DISPOSED", "a run after dispose of the backend", () => again.run());
  }),
  needsLoss: true,
};

const lostContents: Law = {
  ...law("after a loss a switchable backend runs a recording that writes what was lost", async (context) => {
    const backend = await openSwitchable(context);
    try {
      const [a, b] = [backend.alloc(16), backend.alloc(16)];
      using whole = backend.record(() => {
        backend.fill(a, 3, 4, "i32");
        backend.copyDtoD({ handle: a, byteOffset: 4 }, a, 4);
      });
      using needy = backend.record(() => {
        backend.fill(a, 5, 4, "i32");
        backend.copyDtoD(a, b, 16);
      });
      whole.run();
      needy.run();
      await lose(context, backend.inner);
      refuses("DEVICE_LOST", "a run after the loss", () => whole.run());
      await settled(backend.use("reference"), "use");
      refuses("DEVICE_LOST", "a run that reads what was lost", () => needy.run());
      await rejects("DEVICE_LOST", "a read after a run that was refused", () =>
        backend.copyDtoH(new Uint8Array(4), a),
      );
      whole.run();
      await holds(backend, a, [3, 3, 3, 3], "what the recording wrote anew");
      backend.fill(b, 6, 4, "i32");
      needy.run();
      await holds(backend, a, [6, 6, 6, 6], "after all contents are there again");
    } finally {
      await settled(backend.dispose(), "dispose");
    }
  }),
  needsLoss: true,
};

export const lostRecordingLaws: readonly Law[] = [lost, lostContents];
