import { assert } from "chai";
import { type LawFailure, laws, mutants, runLaws } from "#src/index.js";

describe("A failure of the stateful law", () => {
  it("is shown as a short list of calls, and its replay line leads back to it", async () => {
    const { name, create } = mutants.find((mutant) => mutant.name === "double free accepted")!;
    const stateful = laws.filter((law) => law.topic === "stateful");
    const [found] = await runLaws({ name, create, options: { laws: stateful } });
    assert.equal(found!.status, "broken");
    const { message, replay } = found!.error as LawFailure;
    assert.match(message, /alloc\(.*free\(.*use after free\(/);
    assert.isString(replay.replayPath);
    const line = message.split("\n").find((text) => text.startsWith("replay: "))!;
    assert.deepEqual(JSON.parse(line.slice("replay: ".length)), replay);

    const [again] = await runLaws({ name, create, options: { replay } });
    assert.equal(again!.status, "broken");
    assert.equal((again!.error as LawFailure).message, message);
  });
});
