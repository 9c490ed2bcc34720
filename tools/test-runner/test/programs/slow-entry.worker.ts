it("waits in vain", async function () {
  this.timeout(50);
  await new Promise(() => {});
});
