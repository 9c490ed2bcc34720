// Tags: proof, pure, long
import { expect } from "chai";
import { lawId, laws, loseReferenceDevice, mutants, runLaws } from "#src/index.js";

describe("Broken backends", () => {
  for (const { name, create, killedBy, hangs = false } of mutants)
    it(`"${name}" is rejected by ${killedBy.join("; by ")}`, async () => {
      const chosen = laws.filter((law) => killedBy.includes(lawId(law)));
      expect(chosen.map(lawId), "laws that there are").to.have.members([...killedBy]);
      const results = await runLaws({
        name,
        create,
        loseDevice: loseReferenceDevice,
        options: { laws: chosen, shrink: false, ...(hangs ? { patience: 1000 } : {}) },
      });
      for (const { law, status, error } of results) {
        expect(status, lawId(law)).to.equal("broken");
        expect(String(error).includes("promise is still open"), String(error)).to.equal(hangs);
      }
    });

  it("are all named, once", () => {
    expect(new Set(mutants.map(({ name }) => name)).size).to.equal(mutants.length);
    expect(mutants.every(({ killedBy }) => killedBy.length > 0)).to.equal(true);
  });

  it("have laws with names of their own", () => {
    expect(new Set(laws.map(lawId)).size).to.equal(laws.length);
  });
});
