/** Targets of a forward listener as written (hostile rows D4 to D7, D10, D13, D15, D16). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type ForwardTarget,
  parseConnectTarget,
  parseHttpTarget,
} from '../../../src/http/forward-target.ts';

const shown = (target: ForwardTarget | undefined): string =>
  target === undefined ? 'none' : `${target.host} ${target.port} ${target.authority}`;

describe('an absolute-form target', () => {
  const rows: readonly (readonly [target: string, is: string])[] = [
    ['http://a.example', 'a.example 80 a.example'],
    ['HTTP://A.Example:8080', 'a.example 8080 A.Example:8080'],
    ['http://a.example.', 'a.example 80 a.example.'],
    ['http://a_b.example:80', 'a_b.example 80 a_b.example:80'],
    ['http://10.0.0.1', '10.0.0.1 80 10.0.0.1'],
    ['http://[::1]:8080', '::1 8080 [::1]:8080'],
    ['http://[FE80::1]', 'fe80::1 80 [FE80::1]'],
    ['http://xn--bcher-kva.example', 'xn--bcher-kva.example 80 xn--bcher-kva.example'],
    ['https://a.example', 'none'],
    ['ftp://a.example', 'none'],
    ['file:///etc/passwd', 'none'],
    ['gopher://a.example', 'none'],
    ['http:a.example', 'none'],
    ['http://', 'none'],
    ['http:///x', 'none'],
    ['http://u@a.example', 'none'],
    ['http://u:p@a.example', 'none'],
    ['http://@a.example', 'none'],
    ['http://a.example#x', 'none'],
    ['http://a.example:', 'none'],
    ['http://a.example:0', 'none'],
    ['http://a.example:65536', 'none'],
    ['http://a.example:+80', 'none'],
    ['http://a.example:80:80', 'none'],
    ['http://2130706433', 'none'],
    ['http://0x7f.1', 'none'],
    ['http://0177.0.0.1', 'none'],
    ['http://127.1', 'none'],
    ['http://127.0.0.1.', '127.0.0.1 80 127.0.0.1.'],
    ['http://１２７.0.0.1', 'none'],
    ['http://bücher.example', 'none'],
    ['http://a..b', 'none'],
    ['http://.a', 'none'],
    ['http://a%2eb', 'none'],
    ['http://a b', 'none'],
    ['http://::1', 'none'],
    ['http://[::1', 'none'],
    ['http://[fe80::1%25eth0]', 'none'],
    ['http://[fe80::1%eth0]', 'none'],
    ['http://[v1.x]', 'none'],
    [`http://${'a'.repeat(64)}.example`, 'none'],
    [`http://${'a.'.repeat(150)}example`, 'none'],
  ];
  for (const [target, is] of rows) {
    test(`${target.slice(0, 60)} is ${is}`, () => assert.equal(shown(parseHttpTarget(target)), is));
  }
});

describe('the target of a CONNECT', () => {
  const rows: readonly (readonly [target: string, is: string])[] = [
    ['a.example:443', 'a.example 443 a.example:443'],
    ['A.Example.:443', 'a.example 443 A.Example.:443'],
    ['[::1]:443', '::1 443 [::1]:443'],
    ['10.0.0.1:22', '10.0.0.1 22 10.0.0.1:22'],
    ['a.example', 'none'],
    ['a.example:', 'none'],
    ['a.example:0', 'none'],
    ['a.example:99999', 'none'],
    ['a.example:443/', 'none'],
    ['a.example:443/x', 'none'],
    ['u:p@a.example:443', 'none'],
    ['::1:443', 'none'],
    ['[::1]', 'none'],
    ['127.1:443', 'none'],
    ['http://a.example:443', 'none'],
    [':443', 'none'],
  ];
  for (const [target, is] of rows) {
    test(`${target} is ${is}`, () => assert.equal(shown(parseConnectTarget(target)), is));
  }
});
