/** The built image of Espalier's own processes, with the limits of a restricted pod. */
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { fillingFlags } from '../../bin/lean.mjs'
import { describeHygiene } from '../testing/hygiene.ts'
import { hasImages, type Opened, openImage, until } from '../testing/images.ts'

const name = process.env.ESPALIER_TEST_IMAGE || 'localhost/espalier:dev'
const user = { uid: 10001, gid: 10001, groups: [] }

function describeEspalier(): void {
  let opened: Opened
  beforeAll(async () => {
    opened = await openImage(name)
    return () => opened.close()
  })

  describeHygiene(() => opened)

  test('prints its version and label', () => {
    expect(opened.image.entrypoint).toEqual(['espalier'])
    expect(opened.image.environment.join()).toMatch(/PATH=[^,]*\/usr\/local\/bin/)
    expect(opened.image.labels).toMatchObject({
      'org.opencontainers.image.title': 'Espalier',
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.version': expect.stringMatching(/^\d+\.\d+\.\d+/),
    })
  })

  test('lists its commands, which loads every one of them', async () => {
    const { code, output } = await opened.run({ user, args: ['--help'] })
    expect(output).toMatch(/^ {2}operator /m)
    expect(output).not.toMatch(/error/i)
    expect(code).toBe(0)
  })

  test('contains the custom resource definitions that it installs', async () => {
    const crds = join(opened.root, 'opt/espalier/crds/generated')
    expect(readFileSync(join(crds, 'manageddatabases.espalier.dev.yaml'), 'utf8')).toContain('CustomResourceDefinition')
  })

  test.each([
    [['haproxy', '-v'], /version 3\.0\./],
    [['mkfs.ext4', '-V'], /mke2fs/],
    [['resize2fs'], /Usage: resize2fs/],
    [['mkfs.xfs', '-V'], /mkfs\.xfs version/],
    [['xfs_growfs', '-V'], /xfs_growfs version/],
    [['xfs_repair', '-V'], /xfs_repair version/],
    [['losetup', '--version'], /losetup from util-linux/],
    [['mount', '--version'], /mount from util-linux/],
    [['cp', '--version'], /coreutils/],
  ])('has %j', async (command, expected) => {
    const { output } = await opened.run({ user, command })
    expect(output).toMatch(expected)
  })

  test('a command without signal handler stops at a signal, also as process 1', async () => {
    const stay = 'data:text/javascript,setInterval(()=>{},1000)'
    const command = ['node', '--import', stay, '/opt/espalier/bin/espalier.mjs', '--help']
    const helped = opened.start({ user, command })
    await until(() => helped.output().includes('shows the options'), helped.output)
    helped.kill('SIGTERM')
    expect(await helped.exited).toBe(143)
  })

  test('the operator is process 1 itself, uses little memory, and stops at a signal', async () => {
    const directory = opened.directory('operator')
    // The cluster never answers: this is the most difficult moment to stop.
    const silent = createServer(socket => socket.on('error', () => {}))
    await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
    const address = silent.address()
    const port = typeof address === 'object' ? address?.port : 0
    const cluster = { name: 'c', cluster: { server: `https://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true } }
    const context = { name: 'x', context: { cluster: 'c', user: 'u' } }
    const kubeconfig = {
      clusters: [cluster],
      users: [{ name: 'u', user: {} }],
      contexts: [context],
      'current-context': 'x',
    }
    writeFileSync(join(directory, 'kubeconfig'), JSON.stringify(kubeconfig))
    const configuration = { images: { postgres: { 16: 'a', 17: 'b', 18: 'c' } }, leaderElection: true }
    writeFileSync(join(directory, 'operator.yaml'), JSON.stringify(configuration))

    const operator = opened.start({
      user,
      args: ['operator', '--configuration', '/etc/espalier/operator.yaml', '--kubeconfig', '/etc/espalier/kubeconfig'],
      mounts: [{ path: '/etc/espalier', readOnly: true, directory }],
    })
    const connections = () => new Promise<number>(resolve => silent.getConnections((_, count) => resolve(count ?? 0)))
    await until(async () => (await connections()) > 0, operator.output)
    const words = readFileSync(`/proc/${operator.pid()}/cmdline`, 'utf8').split('\0')
    expect(words).toEqual(expect.arrayContaining(fillingFlags))
    const started = performance.now()
    operator.kill('SIGTERM')
    expect(await operator.exited).toBe(0)
    expect(performance.now() - started).toBeLessThan(20_000)
    silent.close()
  })
}

if (hasImages) describe('image of Espalier', describeEspalier)
else test.skip('image of Espalier: needs ESPALIER_TEST_IMAGES')
