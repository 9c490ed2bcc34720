import { operationNames } from "@backplane/core";
import { expect } from "chai";
import { lawId, laws } from "#src/index.js";
import { type Defect, mutants } from "#src/mutants/index.js";
import {
  columnOf,
  type Death,
  matrixText,
  readMatrix,
  topics,
  withMatrix,
  withRows,
} from "./support/kill-matrix.js";

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

  it("takes single rows that were measured later, in the order of the mutants, and says which", () => {
    const death = (name: string, seconds: number): Death => ({
      mutant: { name, defect: "edge" },
      ...{ broken: new Map([["gemm", seconds]]), first: "gemm f32: law", seconds },
    });
    const empty = "before\n<!-- generated: the matrix -->\n<!-- generated: end -->\nafter";
    const text = withMatrix(empty, matrixText([death("one", 1), death("three", 3)], 20));
    const named = ["one", "two", "three"].map((name) => ({ name }));
    const once = withRows(text, [death("two", 2)], named);
    const again = withRows(once, [death("three", 4)], named);
    const found = readMatrix(again).map(({ name, counts }) => [name, counts.get("gemm")]);
    expect(found).to.deep.equal([
      ["one", 1],
      ["two", 2],
      ["three", 4],
    ]);
    expect(once).to.contain("laws there were then.").and.to.contain("2 defective backends against");
    expect(
      again.match(/\| (one|two|three) .*law \| [0-9.]+\*? /g)?.map((row) => row.trim().split(" | ").at(-1)),
    ).to.deep.equal(["1.0", "2.0*", "4.0*"]);
    expect(again).to.match(/^before[\s\S]*after$/);
    // What is gone from the mutants is gone from the file.
    expect(readMatrix(withRows(again, [], named.slice(0, 1))).map(({ name }) => name)).to.deep.equal(["one"]);
  });

  it("has a column of its own for each topic", () => {
    expect(new Set(topics.map(columnOf)).size).to.equal(topics.length);
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
