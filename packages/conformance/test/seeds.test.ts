// Tags: proof, pure, long
import { expect } from "chai";
import { createReferenceBackend, type Law, lawId, laws, loseReferenceDevice, runLaws } from "#src/index.js";

const seeds = Array.from({ length: 3 }, (_, i) => 1000 + 7919 * i);

describe("The healthy reference", () => {
  // Three random cases per law, where the default is 20, and laws on fixed cases with the first seed only:
  // the whole of it takes minutes. What it gave is in docs/kill-matrix.md.
  it(`keeps every law with ${seeds.length} seeds`, async () => {
    let chosen: readonly Law[] = laws;
    for (const seed of seeds) {
      const options = { seed, runs: 3, laws: chosen, shrink: false };
      const subject = {
        name: "the reference",
        create: createReferenceBackend,
        loseDevice: loseReferenceDevice,
      };
      const results = await runLaws({ ...subject, options });
      // It reads while the caller waits, so that the law on those that cannot does not bind it.
      const bound = results.filter(
        ({ law }) => law.name !== "copyDtoHSync is UNSUPPORTED unless it is declared",
      );
      const broken = bound.filter(({ status }) => status !== "kept");
      expect(broken.map(({ law, error }) => `${lawId(law)}: ${String(error)}`)).to.deep.equal([]);
      // Laws without random cases count as one case.
      chosen = results
        .filter(({ isFixed, measurements }) => !isFixed && measurements.cases > 1)
        .map(({ law }) => law);
    }
  });
});
