import { operationNames } from "@backplane/core";
import { expect } from "chai";
import { lawId, laws } from "#src/index.js";
import { type Defect, mutants } from "#src/mutants/index.js";
import { readMatrix } from "./support/kill-matrix.js";

/** That each of them is rejected, mutants.test.ts shows; this is about the record of it, and its breadth. */
describe("The kill matrix", () => {
  it("has every defective backend, and no others; `kill-matrix.js --write` renews it", () => {
    expect(readMatrix().map(({ name }) => name)).to.have.members(mutants.map(({ name }) => name));
  });

  it("has a law for each of them, which there is", () => {
    const ids = new Set(laws.map(lawId));
    for (const { name, first, counts } of readMatrix()) {
      expect(ids.has(first), `${name}: ${first}`).to.equal(true);
      const topic = laws.find((law) => lawId(law) === first)!.topic;
      expect(counts.get(topic), `${name}: laws on ${topic}`).to.be.greaterThan(0);
    }
  });

  it("says of each where the defect is", () => {
    for (const { name, what } of readMatrix()) {
      const { operation, defect } = mutants.find((mutant) => mutant.name === name)!;
      expect(what, name).to.equal(operation === undefined ? defect : `${operation}, ${defect}`);
    }
  });

  for (const operation of operationNames)
    it(`has every kind of defect in ${operation}`, () => {
      const kinds: readonly Defect[] = ["indexing", "edge", "stride", "numerics", "lifecycle"];
      const found = mutants.filter((mutant) => mutant.operation === operation).map(({ defect }) => defect);
      expect(kinds.filter((kind) => !found.includes(kind))).to.deep.equal([]);
    });

  it("has a defect for every topic of the suite", () => {
    const topics = new Set(laws.map(({ topic }) => topic));
    for (const { counts } of readMatrix())
      for (const [topic, count] of counts) if (count > 0) topics.delete(topic);
    expect([...topics]).to.deep.equal([]);
  });
});
