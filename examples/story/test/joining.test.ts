import { expect } from "chai";
import { Coins } from "#src/sampler.js";
import { type Joint, joinNeighbours } from "#src/tokenizer/joining.js";

type JointOf = (first: string, second: string) => Joint<string> | undefined;

/** The definition, one look at all pairs for each that is joined. */
function joinedSimply(given: readonly string[], jointOf: JointOf): string[] {
  const parts = [...given];
  for (;;) {
    let best: { place: number; joint: Joint<string> } | undefined;
    for (let place = 0; place + 1 < parts.length; place++) {
      const joint = jointOf(parts[place]!, parts[place + 1]!);
      if (joint !== undefined && (best === undefined || joint.rank < best.joint.rank))
        best = { place, joint };
    }
    if (best === undefined) return parts;
    parts.splice(best.place, 2, best.joint.joined);
  }
}

describe("joinNeighbours", () => {
  const coins = new Coins(7);
  const below = (limit: number): number => Math.floor(limit * coins.next());

  it("joins as its definition says, whatever pairs there are and whichever are equal", () => {
    let joints = 0;
    for (let round = 0; round < 400; round++) {
      const letters = ["a", "b", "c", "d"].slice(0, 1 + below(4));
      const ranks = new Map<string, number | undefined>();
      const jointOf: JointOf = (first, second) => {
        const pair = `${first} ${second}`;
        // Long parts are rarely joined, and few ranks make many equals.
        if (!ranks.has(pair)) ranks.set(pair, below(pair.length) < 4 ? below(1 + below(9)) : undefined);
        const rank = ranks.get(pair);
        return rank === undefined ? undefined : { joined: first + second, rank };
      };
      const text = Array.from({ length: below(60) }, () => letters[below(letters.length)]!);
      const expected = joinedSimply(text, jointOf);
      expect(joinNeighbours(text, jointOf)).to.deep.equal(expected);
      joints += text.length - expected.length;
    }
    expect(joints).to.be.above(1000);
  });

  it("asks for each pair that arises once, and not for all of them again after each joint", () => {
    let asked = 0;
    const jointOf: JointOf = (first, second) => {
      asked += 1;
      return first.length === second.length && first.length < 64
        ? { joined: first + second, rank: first.length }
        : undefined;
    };
    const length = 2 ** 12;
    expect(
      joinNeighbours(
        Array.from({ length }, () => "a"),
        jointOf,
      ),
    ).to.have.length(length / 64);
    expect(asked).to.be.below(3 * length);
  });
});
