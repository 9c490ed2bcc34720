// Tags: kernels, pure
import { expect } from "chai";
import { direct } from "#src/kernels/conv2d/block.js";
import { directOf, flattened, planesBlocks, readsInPlace } from "#src/kernels/conv2d/planes.js";
import { convolutionForm, convolutionTile } from "#src/kernels/conv2d/tile.js";

describe("conv2d by planes", () => {
  const shape = {
    ...{
      layout: "NCHW" as const,
      batch: 1,
      inChannels: 4,
      outChannels: 8,
      groups: 1,
      height: 30,
      width: 200,
    },
    ...{ kernelHeight: 3, kernelWidth: 3, outHeight: 28, outWidth: 198, strideY: 1, strideX: 1 },
    ...{ top: 0, left: 0, bottom: 0, right: 0, dilationY: 1, dilationX: 1 },
  };
  const plain = { relaxedSimd: false };

  it("takes channels together where a group has at least four", () => {
    expect(convolutionForm(3)).to.equal("wide");
    expect(convolutionForm(4)).to.equal("tall");
    expect(convolutionTile("tall", plain).channels).to.equal(4);
    expect(convolutionTile("tall", { relaxedSimd: true }).channels).to.equal(6);
    expect(convolutionTile("tall", { relaxedSimd: true, fewRegisters: true }).channels).to.equal(4);
  });

  it("covers the output with chunks", () => {
    const blocks = planesBlocks(shape, plain, 128)!;
    expect(blocks).to.include({ columnBlock: 198, pitch: 200, rowBlock: 1, channelBlock: 8, chunks: 28 });
    expect(blocks.depthChannels).to.equal(4);
    expect(planesBlocks(shape, plain, 4)!.chunks).to.equal(56);
  });

  it("shares the zeros between rows, but no sums", () => {
    const padded = { ...shape, left: 1, right: 1, outWidth: 200 };
    expect(planesBlocks(padded, plain, 128)).to.include({ sharedPadding: 1, pitch: 201 });
    const point = {
      ...shape,
      kernelHeight: 1,
      kernelWidth: 1,
      outHeight: 30,
      left: 5,
      right: 5,
      outWidth: 210,
    };
    expect(planesBlocks(point, plain, 128)).to.include({ sharedPadding: 0, pitch: 210 });
  });

  it("leaves kernels that are large, far apart or wider than the output to patches", () => {
    expect(planesBlocks({ ...shape, kernelHeight: 17, kernelWidth: 17 }, plain, 128)).to.equal(undefined);
    expect(planesBlocks({ ...shape, dilationY: 1e6, outHeight: 1 }, plain, 128)).to.equal(undefined);
    expect(planesBlocks({ ...shape, kernelWidth: 80, outWidth: 4 }, plain, 128)).to.equal(undefined);
  });

  it("makes blocks of whole rows that waste few places", () => {
    const square = (size: number) => ({
      ...{ ...shape, height: size, width: size, outHeight: size, outWidth: size },
      ...{ top: 1, left: 1, bottom: 1, right: 1 },
    });
    // 50 tiles of 8 places for 392 of 398; with 4 rows 29 for 224 of 227.
    expect(planesBlocks(square(56), plain, 128)).to.include({ rowBlock: 7, pitch: 57, sums: 400 });
    expect(planesBlocks(square(28), plain, 128)).to.include({ rowBlock: 14, pitch: 29, sums: 408 });
  });

  it("sends sums to the output where places follow one another or rows make whole tiles", () => {
    const directly = (changes: Partial<typeof shape>, form: "tall" | "wide" = "tall"): number => {
      const changed = { ...shape, outHeight: 28, ...changes };
      return directOf(changed, planesBlocks(changed, plain, 128)!, convolutionTile(form, plain));
    };
    expect(directly({ width: 54, outWidth: 52 })).to.equal(direct.no);
    expect(directly({ width: 50, outWidth: 48 })).to.equal(direct.rows);
    expect(directly({ width: 58, outWidth: 56 }, "wide")).to.equal(direct.rows);
    expect(directly({ width: 57, outWidth: 55 }, "wide")).to.equal(direct.no);
    expect(directly({ width: 38, outWidth: 36 }, "wide")).to.equal(direct.no);
    expect(directly({ width: 50, outWidth: 50, kernelWidth: 1 })).to.equal(direct.places);
    expect(directly({ width: 2002, outWidth: 2000 })).to.equal(direct.places);
  });

  it("reads the input of 1x1 kernels in place unless its channels meet in a few sets of the cache", () => {
    const inPlace = (size: number, outChannels: number): boolean => {
      const image = { ...shape, inChannels: 100, outChannels, height: size, width: size };
      const point = flattened({ ...image, outHeight: size, outWidth: size, kernelHeight: 1, kernelWidth: 1 });
      return readsInPlace(point, planesBlocks(point, plain, 128)!);
    };
    expect(inPlace(56, 64)).to.equal(true);
    expect(inPlace(56, 32)).to.equal(false);
    expect(inPlace(32, 64)).to.equal(false);
    expect(inPlace(40, 64)).to.equal(true);
  });
});
