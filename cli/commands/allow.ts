/** `espalier allow`: lists and changes the addresses that may connect to a database. */

import { program } from '../../server/program.ts'
import { escapeControls } from '../../values/escape.ts'
import type { Database } from '../api/shapes.ts'
import {
  act,
  type ClientCommand,
  createCommand,
  databaseArgument,
  type Run,
  type WaitOptions,
  waitOptions,
} from '../arguments.ts'
import { NotFound, UsageError } from '../errors.ts'
import { inOptions } from '../fields.ts'
import type { Column } from '../output/table.ts'
import { chosenDatabase, type Session } from '../session.ts'
import { waitFor } from '../wait.ts'

type Rule = Database['ip_allowlist']['rules'][number]

const columns: readonly Column<Rule>[] = [
  { title: 'ADDRESSES', value: ({ cidr }) => cidr },
  { title: 'LABEL', value: ({ label }) => label },
]

/** `203.0.113.7` and `203.0.113.7/32` are the same block. */
const blockOf = (cidr: string): string => (cidr.includes('/') ? cidr : `${cidr}/32`)

/** Adds a rule. Returns undefined if the block already has a rule. Pure. */
export const rulesWith = (rules: readonly Rule[], added: Rule): Rule[] | undefined =>
  rules.some(({ cidr }) => blockOf(cidr) === blockOf(added.cidr)) ? undefined : [...rules, added]

/** Removes the rule of a block. Returns undefined if there is no such rule. Pure. */
export function rulesWithout(rules: readonly Rule[], cidr: string): Rule[] | undefined {
  const remaining = rules.filter(rule => blockOf(rule.cidr) !== blockOf(cidr))
  return remaining.length === rules.length ? undefined : remaining
}

async function change(
  session: Session,
  name: string | undefined,
  options: WaitOptions,
  decide: (rules: readonly Rule[]) => Rule[] | undefined,
): Promise<void> {
  if (name !== undefined && /^[0-9.]+(\/[0-9]+)?$/.test(name))
    throw new UsageError(`${name} is an address, not a database: the order is the address, then the database`)
  const { client, database } = await chosenDatabase(session, name)
  const first = await client.changeFrom(
    database.id,
    ({ ip_allowlist: { rules } }) => {
      const decided = decide(rules)
      return decided === undefined ? undefined : { ip_allowlist: { rules: decided } }
    },
    0,
  )
  const read = (wait: number) => client.read(database.id, 'application', wait)
  const last = await waitFor(session, options, { client, first, read })
  const cidrs = last.ip_allowlist.rules.map(({ cidr }) => cidr).join(', ')
  session.printer.done(escapeControls(`${last.name} admits ${cidrs || 'no address'}`), last.name, last)
}

type LabelOptions = WaitOptions & { label?: string }

function addChanges(run: Run, group: ReturnType<typeof createCommand>): void {
  const me = databaseArgument(group.command('me').description('adds a rule for the address of this machine'))
  act<LabelOptions>(
    run,
    waitOptions(me.option('--label <text>', 'a label for the address')),
    async (session, [name], options) => {
      const cidr = await (await session.client()).clientIp()
      await change(session, name, options, rules =>
        rulesWith(rules, { cidr, label: options.label ?? 'espalier allow me' }),
      )
    },
    inOptions({ ip_allowlist: '--label' }),
  )
  const adding = group
    .command('add')
    .description('adds a rule for an address or block')
    .argument('<cidr>', 'such as 203.0.113.0/24')
  act<LabelOptions>(
    run,
    waitOptions(databaseArgument(adding).option('--label <text>', 'a label for the addresses')),
    (session, [cidr = '', name], options) =>
      change(session, name, options, rules =>
        rulesWith(rules, { cidr, ...(options.label === undefined ? {} : { label: options.label }) }),
      ),
    // The API accepted the other rules before, so the error is about the new rule's label or address.
    message => inOptions({ ip_allowlist: /\.label: /.test(message) ? '--label' : '<cidr>' })(message),
  )
  const removing = group
    .command('remove')
    .description('removes a rule: new connections are refused, open sessions stay')
    .argument('<cidr>')
  act<WaitOptions>(run, waitOptions(databaseArgument(removing)), (session, [cidr = '', name], options) =>
    change(session, name, options, rules => {
      const remaining = rulesWithout(rules, cidr)
      if (remaining !== undefined) return remaining
      throw new NotFound(`there is no rule for ${JSON.stringify(cidr)}: run ${program} allow list to see the rules`)
    }),
  )
}

const command: ClientCommand = run => {
  const group = createCommand(run, 'allow', 'The addresses that may connect to a database.')
  const listing = group.command('list').alias('ls').description('lists the rules')
  act(run, databaseArgument(listing), async (session, [name]) => {
    const { database } = await chosenDatabase(session, name)
    session.printer.list(
      database.ip_allowlist.rules,
      columns,
      ({ cidr }) => cidr,
      `No address may connect to ${escapeControls(database.name)}: run ${program} allow me to add this machine`,
    )
  })
  addChanges(run, group)
  return group
}
export default command
