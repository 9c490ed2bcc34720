// Tags: proof, pure, long
import { type ComputeBackend, createBackend, FallbackBackend, operationNames } from "@backplane/core";
import { after, before, describe, it } from "mocha";
import { describeBackend, laws } from "#src/index.js";
import { loseReferenceDevice, ReferenceDriver } from "#src/reference.js";

/** The arithmetic is that of the two backends: what matters here is the operands, and all that is not arithmetic. */
const arithmetic: readonly string[] = [...operationNames, "accuracy", "numerics", "reach"];
const chosen = laws.filter(
  ({ topic, name }) => !arithmetic.includes(topic) || name.includes("touches nothing"),
);

/** A reference that lacks every other operation. */
function lacking(readsSynchronously: boolean): ComputeBackend {
  const driver = new ReferenceDriver();
  const kernels = Object.entries(driver.kernels).filter(
    ([name]) => operationNames.indexOf(name as (typeof operationNames)[number]) % 2 === 1,
  );
  Object.assign(driver, { kernels: Object.fromEntries(kernels) });
  if (!readsSynchronously) {
    const { readSync } = driver;
    driver.read = async (...given) => readSync.apply(driver, given);
    Object.assign(driver, { readSync: undefined });
  }
  return createBackend(driver);
}

for (const readsSynchronously of [true, false]) {
  const lost = new WeakMap<ComputeBackend, ComputeBackend>();
  describeBackend(
    {
      name: `fallback from a backend that ${readsSynchronously ? "reads synchronously" : "must be awaited"}`,
      create: () => {
        const [first, second] = [lacking(readsSynchronously), createBackend(new ReferenceDriver())];
        const backend = new FallbackBackend(first, second, { warn: () => {} });
        lost.set(backend, readsSynchronously ? first : second);
        return backend;
      },
      loseDevice: (backend) => loseReferenceDevice(lost.get(backend)!),
      options: { mode: "quick", laws: chosen },
    },
    { describe, it, before, after },
  );
}
