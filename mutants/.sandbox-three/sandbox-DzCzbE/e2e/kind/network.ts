/** What a dockerd of our own writes into the machine's network, and how it is taken out again. */
// @ts-nocheck

import { readdir, readFile } from 'node:fs/promises'
import type { Run } from '../../images/command.ts'

/** Chains that dockerd makes are called so, and so are the rules that lead to them; every dockerd shares them. */
const mark = /\bDOCKER/

/**
 * The commands that undo what `iptables --list-rules` of a table shows of a dockerd whose networks these are. The
 * shared chains go too where it was the only one. Pure.
 */
export function undoing(rules: string, subnets: readonly string[], wasOnlyOne: boolean): string[][] {
  const lines = rules.split('\n').map(line => line.trim().split(' '))
  const isOurs = (words: readonly string[]) =>
    (wasOnlyOne && mark.test(words.join(' '))) || subnets.some(subnet => words.includes(subnet))
  const appended = lines.filter(([verb, chain = '']) => verb === '-A' && !/^DOCKER/.test(chain))
  const chains = lines
    .filter(([verb, chain = '']) => verb === '-N' && /^DOCKER/.test(chain))
    .map(words => words[1] ?? '')
  const removals = appended.filter(isOurs).map(words => ['-D', ...words.slice(1)])
  if (!wasOnlyOne) return removals
  return [...removals, ...chains.map(chain => ['-F', chain]), ...chains.map(chain => ['-X', chain])]
}

/** Whether any dockerd runs on this machine. */
async function isAnyRunning(): Promise<boolean> {
  const pids = (await readdir('/proc')).filter(name => /^[0-9]+$/.test(name))
  // One that has ended and that nobody has waited for has no command line any more.
  const commands = await Promise.all(pids.map(pid => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return commands.some(command => command.split('\0')[0]?.split('/').at(-1) === 'dockerd')
}

/** Called when our own has ended. */
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

/** Bridges that stand on these addresses. */
export async function removeBridges(run: Run, addresses: readonly string[]): Promise<void> {
  const shown = await run('ip', ['-oneline', 'address', 'show']).catch(() => '')
  for (const line of shown.split('\n')) {
    const [, name = '', , address = ''] = line.trim().split(/\s+/)
    if (addresses.includes(address)) await run('ip', ['link', 'delete', name]).catch(() => {})
  }
}
