import { assert } from "chai";
import { readTar } from "#src/archive.js";

/** One header block of a POSIX tar archive. */
function header(name: string, size: number, type = "0"): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0);
  block.write("0000755", 100);
  block.write(size.toString(8).padStart(11, "0"), 124);
  block.write(type, 156);
  return block;
}

function file(name: string, text: string): Buffer {
  const padded = Buffer.alloc(Math.ceil(text.length / 512) * 512);
  padded.write(text);
  return Buffer.concat([header(name, text.length), padded]);
}

describe("tar reader", () => {
  it("reads files of any length, and folders as nothing", () => {
    const texts = ["", "x", "y".repeat(512), "z".repeat(513)];
    const archive = Buffer.concat([
      header("lib/", 0, "5"),
      ...texts.map((text, index) => file(`lib/${index}`, text)),
      Buffer.alloc(1024),
    ]);
    const read = [...readTar(archive)];
    assert.deepEqual(
      read.map(({ name, mode, content }) => [name, mode, Buffer.from(content).toString()]),
      texts.map((text, index) => [`lib/${index}`, 0o755, text]),
    );
  });

  it("refuses an archive that is cut short", () => {
    assert.throws(() => [...readTar(header("lib/a", 600))], "lib/a is cut short");
  });

  it("refuses entries that it would lose", () => {
    assert.throws(() => [...readTar(header("lib/a", 0, "2"))], 'unexpected entry type "2"');
  });
});
