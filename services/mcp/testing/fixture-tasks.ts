/** Tools that run as tasks: quick, slow and failing tools, and a tool that requests input while it runs. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Tool } from '../core/tool.ts'
import { toolError, toolText } from '../core/tool.ts'
import { elicitation, fieldOf, nameInput } from './fixture-input.ts'
import { tool } from './fixture-tools.ts'

/** After this time, the fixture's server continues a call as a task. */
export const taskDelayMs = 20
/** Longer than `taskDelayMs`, also on a busy machine. */
const longEnoughMs = 150

const confirm = (text: string) => elicitation(text, { confirm: { type: 'boolean' } })

export const taskTools: Tool[] = [
  tool('greet', async ({ name }) => toolText(`Hello, ${name}!`), {
    inputSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  }),
  tool(
    'slow_compute',
    async ({ seconds, label }, { signal, progress }) => {
      progress({ progress: 0, message: `computing ${label}` })
      await pause(Number(seconds) * 1_000, undefined, { signal })
      return toolText(`computed ${label}`)
    },
    {
      task: 'optional',
      inputSchema: {
        type: 'object',
        properties: { seconds: { type: 'number', minimum: 0, maximum: 600 }, label: { type: 'string' } },
        required: ['seconds'],
      },
    },
  ),
  tool(
    'failing_job',
    async (_, { signal }) => {
      await pause(longEnoughMs, undefined, { signal })
      return toolError('the job has failed')
    },
    { task: 'required' },
  ),
  tool(
    'protocol_error_job',
    async (_, { signal }) => {
      await pause(longEnoughMs, undefined, { signal })
      throw new Error('this is not for clients')
    },
    { task: 'optional' },
  ),
  tool(
    'confirm_delete',
    async ({ filename }, { signal, answers }) => {
      await pause(longEnoughMs, undefined, { signal })
      const answer = answers?.responses.confirm
      if (answer === undefined)
        return { kind: 'input-required', requests: { confirm: confirm(`Delete ${filename}?`) }, state: { filename } }
      return toolText(fieldOf(answer, 'confirm') === true ? `deleted ${answers?.state?.filename}` : 'kept')
    },
    {
      task: 'optional',
      inputSchema: { type: 'object', properties: { filename: { type: 'string' } }, required: ['filename'] },
    },
  ),
  tool(
    'multi_input',
    async (_, { signal, answers }) => {
      await pause(longEnoughMs, undefined, { signal })
      return answers === undefined
        ? { kind: 'input-required', requests: { name: nameInput, sure: confirm('Sure?') } }
        : toolText(`both are there: ${Object.keys(answers.responses).sort().join(', ')}`)
    },
    { task: 'optional' },
  ),
  tool(
    'test_tool_with_task',
    async (_, { signal, answers }) => {
      const answer = answers?.responses.user_name
      if (answer === undefined) return { kind: 'input-required', requests: { user_name: nameInput } }
      await pause(longEnoughMs, undefined, { signal })
      return toolText(`Hello, ${fieldOf(answer, 'name')}!`)
    },
    { task: 'required' },
  ),
]
