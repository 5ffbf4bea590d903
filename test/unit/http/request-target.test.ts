/** Paths that leave their place (row D9) and the parts of absolute-form targets (rows D4 to D7). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasDotSegments, splitAbsolute } from '../../../src/http/request-target.ts';

/** Asks about the text between bytes that would change the answer if they were read. */
function has(path: string, around = '/..'): boolean {
  const bytes = Buffer.from(`${around}${path}${around}`, 'latin1');
  return hasDotSegments(bytes, around.length, around.length + Buffer.byteLength(path, 'latin1'));
}

const tricks = [
  '/.',
  '/..',
  '/./a',
  '/../a',
  '/a/.',
  '/a/..',
  '/a/../b',
  '/%2e',
  '/%2E%2e/',
  '/.%2e/',
  '/%2e./a',
  '/a%2fb',
  '/a%2Fb',
  '/a%5cb',
  '/a%5Cb',
  '/a\\b',
  '/a%00',
  '/..;/a',
  '/.;x=y/a',
  '/%2e%2e;x',
  '/..%3bx/',
  '/%u002e%u002e/',
  '/a%u002fb',
  '/%U005c',
  '/a%u0000',
  '//..',
  '/a/.%2E',
];
const sound = [
  '/',
  '//',
  '/a',
  '/a.b',
  '/.a',
  '/..a',
  '/...',
  '/a..',
  '/a./b',
  '/.a/..b/...',
  '/%2ea',
  '/a%20b',
  '/%252e%252e/',
  '/a;..',
  '/a;b/c',
  '/a%',
  '/a%2',
  '/%',
  '/%zz',
  '/%u00',
  '/%u002',
  '/a%2',
  '/%E4%2F'.slice(0, 4),
  '/a%u0041',
];

test('D9: dot segments and hidden separators are found after one decoding', () => {
  for (const path of tricks) assert.equal(has(path), true, path);
});

test('D9: other paths are left alone', () => {
  for (const path of sound) assert.equal(has(path), false, path);
});

test('D9: the answer depends on the path only, not on the bytes around it', () => {
  for (const path of [...tricks, ...sound]) {
    for (const around of ['e', '2e', 'f/', '.', '\\', '%']) {
      assert.equal(has(path, around), has(path), `${path} in ${around}`);
    }
  }
});

test('D4: an absolute-form target is split into its authority and the origin-form', () => {
  assert.deepEqual(splitAbsolute('HTTP://App.Example:81/a/b?c=http://d/'), {
    scheme: 'http',
    authority: { host: 'app.example', port: 81, ipv6: false },
    authorityText: 'App.Example:81',
    target: '/a/b?c=http://d/',
  });
  assert.deepEqual(splitAbsolute('https://[::1]')?.target, '/');
  assert.deepEqual(splitAbsolute('https://[::1]')?.scheme, 'https');
  assert.deepEqual(splitAbsolute('http://h?x')?.target, '/?x');
  assert.deepEqual(splitAbsolute('http://h//x')?.target, '//x');
});

test('D5, D6, D7: other schemes, userinfo, fragments and bad authorities are refused', () => {
  for (const target of [
    'ftp://h/',
    'file:///a',
    'gopher://h',
    'http:/h',
    'http:h',
    'http://',
    'http:///a',
    '//h/a',
    '/a',
    'h:80',
    'http://u@h/',
    'http://u:p@h/',
    'http://h/#a',
    'http://h#a',
    'http://h:0/',
    'http://h h/',
    ' http://h/',
    'http://2130706433/',
    'http://h\\@i/',
  ]) {
    assert.equal(splitAbsolute(target), undefined, target);
  }
});
