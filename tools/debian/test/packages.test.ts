import { assert } from "chai";
import { DebianUnavailable, debianSuites } from "#src/packages.js";

describe("packages of Debian", () => {
  const release = (id: string, version: string, name: string) =>
    `PRETTY_NAME="Some ${version}"\nID=${id}\nVERSION_ID="${version}"\nVERSION_CODENAME=${name}\n`;
  const bookworm = release("debian", "12", "bookworm");
  const trixie = release("debian", "13", "trixie");

  it("come from the release, or from the backports for Debian 12 where they have to", () => {
    const old = { name: "old", backported: false };
    const recent = { name: "recent", backported: true };
    assert.deepEqual(debianSuites(bookworm, old), ["bookworm"]);
    assert.deepEqual(debianSuites(bookworm, recent), ["bookworm", "bookworm-backports"]);
    assert.deepEqual(debianSuites(trixie, old), ["trixie"]);
    assert.deepEqual(debianSuites(trixie, recent), ["trixie"]);
  });

  it("are refused to other systems, with the reason", () => {
    for (const other of [release("debian", "11", "bullseye"), release("ubuntu", "24.04", "noble"), ""])
      assert.throws(
        () => debianSuites(other, { name: "wanted", backported: false }),
        DebianUnavailable,
        /wanted is fetched from Debian 12 or newer/,
      );
  });
});
