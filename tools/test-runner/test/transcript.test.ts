import { assert } from "chai";
import { Transcript } from "#src/transcript.js";

describe("transcript", () => {
  it("prints the first part as it comes, and the others in their turn", () => {
    const printed: string[] = [];
    const transcript = new Transcript(3, (text) => printed.push(text));
    transcript.write(2, "c1");
    transcript.write(0, "a1");
    transcript.end(2);
    transcript.write(1, "b1");
    transcript.write(0, "a2");
    assert.equal(printed.join(" "), "a1 a2");
    transcript.end(0);
    assert.equal(printed.join(" "), "a1 a2 b1");
    transcript.write(1, "b2");
    transcript.end(1);
    assert.equal(printed.join(" "), "a1 a2 b1 b2 c1");
  });
});
