// Tags: proof, long
import { expect } from "chai";
import { lawId, laws, loseReferenceDevice, mutants, runLaws } from "#src/index.js";

describe("Broken backends", () => {
  for (const { name, create, killedBy } of mutants)
    it(`"${name}" is rejected by ${killedBy.join("; by ")}`, async function () {
      this.timeout(60_000);
      const chosen = laws.filter((law) => killedBy.includes(lawId(law)));
      expect(chosen.map(lawId), "laws that there are").to.have.members([...killedBy]);
      const results = await runLaws({
        name,
        create,
        loseDevice: loseReferenceDevice,
        options: { laws: chosen, shrink: false },
      });
      for (const { law, status } of results) expect(status, lawId(law)).to.equal("broken");
    });

  it("are all named, once", () => {
    expect(new Set(mutants.map(({ name }) => name)).size).to.equal(mutants.length);
    expect(mutants.every(({ killedBy }) => killedBy.length > 0)).to.equal(true);
  });

  it("have laws with names of their own", () => {
    expect(new Set(laws.map(lawId)).size).to.equal(laws.length);
  });
});
