import { expect, test } from 'vitest'
import { mirrorsOf, publicMirrors, sourcesOf, waySettings } from './apt.ts'
import { mmdebstrapArguments } from './base.ts'
import { aptProxy } from './pgdg.ts'

const dump = `Acquire "";
Acquire::AllowInsecureRepositories "1";
Acquire::Check-Valid-Until "false";
Acquire::http "";
Acquire::http::Proxy "http://proxy.test:3128";
Acquire::https::Verify-Peer "true";
Acquire::Languages:: "none";
`

test("a build uses this machine's proxies and mirrors, but never its permission to trust unsigned packages", () => {
  expect(waySettings(dump)).toBe(
    'Acquire::Check-Valid-Until "false";\nAcquire::http::Proxy "http://proxy.test:3128";\nAcquire::https::Verify-Peer "true";\n',
  )
})

test('the proxy of apt is used', () => {
  expect(aptProxy(waySettings(dump))).toBe('http://proxy.test:3128')
  expect(aptProxy('Acquire::http::Proxy "DIRECT";\n')).toBeUndefined()
  expect(aptProxy('')).toBeUndefined()
})

test("only Debian's mirrors are used, whatever other sources a machine has", () => {
  const targets =
    'http://other.test/apt/ Other\nhttp://mirror.test/debian/ Debian\nhttp://mirror.test/security/ Debian-Security\n'
  expect(mirrorsOf(targets)).toEqual({ debian: 'http://mirror.test/debian', security: 'http://mirror.test/security' })
  expect(mirrorsOf('')).toEqual(publicMirrors)
})

test('a stable release has suites for updates and security, an unstable release has only one suite', () => {
  expect(sourcesOf('trixie', publicMirrors).match(/^Suites: .*$/gm)).toEqual([
    'Suites: trixie trixie-updates',
    'Suites: trixie-security',
  ])
  expect(sourcesOf('sid', publicMirrors).match(/^Suites: .*$/gm)).toEqual(['Suites: sid'])
  expect(sourcesOf('sid', publicMirrors)).toContain('Signed-By: ')
})

test('a base contains no files of the build machine', () => {
  const files = { build: '/b/build.sources', keep: '/b/keep.sources', configuration: '/b/apt.conf' }
  const args = mmdebstrapArguments('trixie', '/b/root.tar', files)
  const removal = args.findIndex(arg => arg.includes('"$1"/etc/apt/sources.list.d/*'))
  const restored = args.indexOf('--customize-hook=upload /b/keep.sources /etc/apt/sources.list.d/debian.sources')
  expect(removal).toBeGreaterThan(0)
  expect(restored).toBeGreaterThan(removal)
  for (const name of ['99mmdebstrap', 'resolv.conf', 'hostname']) expect(args[removal]).toContain(name)
  expect(args.slice(-3)).toEqual(['trixie', '/b/root.tar', '/b/build.sources'])
})
