import { expect } from "chai";
import { anchors, codeBlocks, expectedOutput, fileLinks } from "#src/markdown.js";

const markdown = `# Title
\`\`\`ts
first(); // prints: 1 2
second(); // prints: three
\`\`\`
[web](https://example.org/a.md) [file](docs/a.md#part) [here](#part)
\`\`\`text
ignored
\`\`\`
\`\`\`ts
\`\`\`
`;

describe("markdown", () => {
  it("has code blocks by language", () => {
    expect(codeBlocks(markdown, "ts")).to.deep.equal([
      { line: 2, code: "first(); // prints: 1 2\nsecond(); // prints: three" },
      { line: 10, code: "" },
    ]);
  });

  it("says what is to be printed", () => {
    expect(expectedOutput(markdown)).to.deep.equal(["1 2", "three"]);
  });

  it("links to files", () => {
    expect(fileLinks(markdown)).to.deep.equal([
      { path: "docs/a.md", anchor: "part" },
      { path: "", anchor: "part" },
    ]);
  });

  it("has anchors of headings", () => {
    const headings = "# `f()`, and why\n## On the GPU\n```sh\n# a comment\n```\n## On the GPU\n";
    expect([...anchors(headings)]).to.deep.equal(["f-and-why", "on-the-gpu", "on-the-gpu-1"]);
  });
});
