import { expect } from "chai";
import { after, before, describe, it } from "mocha";
import {
  createReferenceBackend,
  describeBackend,
  type Law,
  lawId,
  laws,
  loseReferenceDevice,
  runLaws,
} from "#src/index.js";

const seeds = Array.from({ length: 3 }, (_, i) => 1000 + 7919 * i);

/** Every fourth law: all of them in one file would take ten minutes. */
export function describeReference(quarter: 1 | 2 | 3 | 4): void {
  const chosen = laws.filter((_, i) => i % 4 === quarter - 1);
  const subject = { name: "the reference", create: createReferenceBackend, loseDevice: loseReferenceDevice };
  // As every backend is tried.
  describeBackend({ ...subject, options: { laws: chosen } }, { describe, it, before, after });

  describe("The healthy reference", () => {
    // Three random cases per law, where the default is 20, and laws on fixed cases with the first seed only:
    // the whole of it takes minutes. What it gave is in docs/kill-matrix.md.
    it(`keeps every law of quarter ${quarter} with ${seeds.length} seeds`, async () => {
      let remaining: readonly Law[] = chosen;
      for (const seed of seeds) {
        const options = { seed, runs: 3, laws: remaining, shrink: false };
        const results = await runLaws({ ...subject, options });
        // It reads while the caller waits, so that the law on those that cannot does not bind it.
        const bound = results.filter(
          ({ law }) => law.name !== "copyDtoHSync is UNSUPPORTED unless it is declared",
        );
        const broken = bound.filter(({ status }) => status !== "kept");
        expect(broken.map(({ law, error }) => `${lawId(law)}: ${String(error)}`)).to.deep.equal([]);
        // Laws without random cases count as one case.
        remaining = results
          .filter(({ isFixed, measurements }) => !isFixed && measurements.cases > 1)
          .map(({ law }) => law);
      }
    });
  });
}
