// Tags: proof, pure
import { assert } from "chai";
import fc from "fast-check";
import { operandsOf } from "#src/ops/map/smallest.js";
import { everything, integers, treeCases, wholes } from "#src/ops/map/trees.js";

describe("random expressions", () => {
  for (const [name, vocabulary] of Object.entries({
    everything: everything("f32"),
    wholes: wholes("f16"),
    integers,
  }))
    for (const form of ["unary", "binary", "select", "convert"] as const)
      it(`shrink to the smallest one that has a wrong node, of ${form}, of ${name}`, () => {
        /** Whether a result needs a node of that form. */
        const isWrong = (nodes: readonly object[], place: number): boolean =>
          form in nodes[place]! ||
          operandsOf(nodes[place]! as never).some((operand) => isWrong(nodes, operand));
        const { counterexample } = fc.check(
          fc.property(
            treeCases(vocabulary),
            ({ nodes, outputs }) => !outputs.some(({ result }) => isWrong(nodes, result)),
          ),
          { seed: 1, numRuns: 300 },
        );
        const [{ nodes, outputs, shape }] = counterexample!;
        assert.deepEqual(
          outputs.map(({ result }) => result),
          [nodes.length - 1],
        );
        assert.property(nodes.at(-1), form);
        // Nothing but the node and what it needs.
        for (const [place, node] of nodes.entries()) {
          if (place < nodes.length - 1) assert.notProperty(node, form);
          const isNeeded = nodes.some((other) => operandsOf(other).includes(place));
          assert.equal(isNeeded, place < nodes.length - 1, `nodes[${place}]`);
        }
        assert.isTrue(shape.every((extent) => extent === 1));
      });
});
