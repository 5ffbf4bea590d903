import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  contextTag,
  decodeOid,
  encodeElement,
  encodeOid,
  readElement,
  readElements,
  readOnly,
  readOnlyTagged,
  TAG,
} from '../../../../src/auth/spnego/der.ts';
import { hex } from '../../../spec/vectors.ts';

const OCTETS = TAG.OCTET_STRING;

describe('lengths', () => {
  test('are written as short as they can be', () => {
    for (const [bytes, header] of [
      [0, '0400'],
      [1, '0401'],
      [127, '047f'],
      [128, '048180'],
      [255, '0481ff'],
      [256, '04820100'],
      [65_535, '0482ffff'],
      [65_536, '0483010000'],
    ] as const) {
      const element = encodeElement(OCTETS, Buffer.alloc(bytes));
      assert.equal(element.subarray(0, header.length / 2).toString('hex'), header);
      assert.equal(element.length, header.length / 2 + bytes);
      assert.equal(readOnlyTagged(element, OCTETS)?.length, bytes);
    }
  });

  test('are read in longer forms too, of up to four bytes', () => {
    for (const text of ['0401aa', '048101aa', '04820001aa', '0483000001aa', '048400000001aa']) {
      assert.deepEqual(Buffer.from(readOnlyTagged(hex(text), OCTETS) ?? []), hex('aa'), text);
    }
    for (const text of ['04850000000001aa', '0488000000000000 0001aa', '04ff01aa']) {
      assert.equal(readOnly(hex(text.replaceAll(' ', ''))), undefined, text);
    }
  });

  test('are definite and end inside', () => {
    for (const text of [
      '',
      '04',
      '0480',
      '0480aa0000',
      '3080040000',
      '0402aa',
      '0481',
      '0482ff',
      '0484ffffffffaa',
      '048480000001aa',
    ]) {
      assert.equal(readElement(hex(text), 0), undefined, text);
      assert.equal(readOnly(hex(text)), undefined, text);
    }
  });
});

describe('elements', () => {
  test('are read one after the other, and not descended into', () => {
    const both = hex('a003040101040102');
    assert.deepEqual(
      readElements(both)?.map(({ tag, value }) => [tag, Buffer.from(value).toString('hex')]),
      [
        [contextTag(0), '040101'],
        [OCTETS, '02'],
      ],
    );
    assert.deepEqual(readElements(hex('')), []);
    assert.equal(readElements(hex('0401010402')), undefined);
  });

  test('readOnly wants nothing behind; readElement says where the next one starts', () => {
    const bytes = hex('040101ff');
    assert.equal(readOnly(bytes), undefined);
    assert.equal(readElement(bytes, 0)?.next, 3);
    assert.equal(readOnlyTagged(hex('040101'), TAG.SEQUENCE), undefined);
  });

  test('tag numbers of more than one byte do not occur', () => {
    assert.equal(readOnly(hex('1f010100')), undefined);
    assert.equal(readOnly(hex('bf810100')), undefined);
  });
});

describe('object identifiers', () => {
  test('read and write their two first arcs as one', () => {
    for (const [dotted, content] of [
      ['0.9', '09'],
      ['1.39.0', '4f00'],
      ['2.5.29', '551d'],
      ['2.100.3', '813403'],
      ['1.2.840.48018', '2a864882f712'],
    ] as const) {
      assert.equal(decodeOid(hex(content)), dotted);
      assert.equal(encodeOid(dotted).subarray(2).toString('hex'), content);
    }
  });

  test('are not empty, cut off, padded or larger than numbers are', () => {
    for (const text of ['', '2a86', '2a8001', '80', '2affffffffffffffffff7f']) {
      assert.equal(decodeOid(hex(text)), undefined, text);
    }
  });
});
