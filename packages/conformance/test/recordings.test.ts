// Tags: proof, pure
import { ForwardingBackend, type MemoryStatistics } from "@backplane/core";
import { assert } from "chai";
import { createReferenceBackend, laws, runSuite } from "#src/index.js";

/** Sets memory up for its own use, such as a ring for uploads, once a number of operations has been called. */
class LateBackend extends ForwardingBackend {
  #calls = 0;
  readonly #busyAt: number;

  constructor(busyAt: number) {
    super(createReferenceBackend());
    this.#busyAt = busyAt;
  }

  override run(...call: Parameters<ForwardingBackend["run"]>): void {
    this.#calls++;
    super.run(...call);
  }

  override memory(): MemoryStatistics {
    const memory = super.memory();
    return { ...memory, reservedBytes: memory.reservedBytes + (this.#calls < this.#busyAt ? 0 : 2 ** 24) };
  }
}

describe("The law on what recordings hold", () => {
  const law = laws.filter(({ name }) => name === "recordings give back what they held");

  for (const busyAt of [100, 300])
    it(`takes no offence at memory that a backend sets up once, at call ${busyAt}`, async () => {
      const { results } = await runSuite({
        name: "late",
        create: () => new LateBackend(busyAt),
        options: { laws: law },
      });
      assert.deepEqual(
        results.map(({ status }) => status),
        ["kept"],
      );
    });
});
