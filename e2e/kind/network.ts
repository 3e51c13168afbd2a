/** The firewall rules that this cluster's own dockerd adds to the machine's network, and their removal. */
import { readdir, readFile } from 'node:fs/promises'
import type { Run } from '../../images/command.ts'

/** dockerd's chains, and the rules that jump to them, have these names. All dockerds share them. */
const dockerChain = /\bDOCKER/

/**
 * Returns the commands that remove the rules of a dockerd with these networks. `rules` is the output of `iptables
 * --list-rules` for a table. If it was the only dockerd, the commands also remove the shared chains. Pure.
 */
export function undoing(rules: string, subnets: readonly string[], wasOnlyOne: boolean): string[][] {
  const lines = rules.split('\n').map(line => line.trim().split(' '))
  const isOwn = (words: readonly string[]) =>
    (wasOnlyOne && dockerChain.test(words.join(' '))) || subnets.some(subnet => words.includes(subnet))
  const appended = lines.filter(([verb, chain = '']) => verb === '-A' && !/^DOCKER/.test(chain))
  const chains = lines
    .filter(([verb, chain = '']) => verb === '-N' && /^DOCKER/.test(chain))
    .map(words => words[1] ?? '')
  const removals = appended.filter(isOwn).map(words => ['-D', ...words.slice(1)])
  if (!wasOnlyOne) return removals
  return [...removals, ...chains.map(chain => ['-F', chain]), ...chains.map(chain => ['-X', chain])]
}

/** Whether any dockerd runs on this machine. */
async function isAnyRunning(): Promise<boolean> {
  const pids = (await readdir('/proc')).filter(name => /^[0-9]+$/.test(name))
  // A process that has ended but was not reaped has no command line.
  const commands = await Promise.all(pids.map(pid => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return commands.some(command => command.split('\0')[0]?.split('/').at(-1) === 'dockerd')
}

/** Call this when the own dockerd has ended. */
export async function removeRules(run: Run, subnets: readonly string[]): Promise<void> {
  const wasOnlyOne = !(await isAnyRunning())
  for (const command of ['iptables', 'ip6tables']) {
    for (const table of ['nat', 'filter', 'raw']) {
      const rules = await run(command, ['--table', table, '--list-rules']).catch(() => '')
      for (const args of undoing(rules, subnets, wasOnlyOne))
        await run(command, ['--table', table, ...args]).catch(() => {})
    }
  }
}

/** Bridges with these addresses. */
export async function removeBridges(run: Run, addresses: readonly string[]): Promise<void> {
  const shown = await run('ip', ['-oneline', 'address', 'show']).catch(() => '')
  for (const line of shown.split('\n')) {
    const [, name = '', , address = ''] = line.trim().split(/\s+/)
    if (addresses.includes(address)) await run('ip', ['link', 'delete', name]).catch(() => {})
  }
}
