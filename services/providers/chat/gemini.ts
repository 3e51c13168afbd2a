/**
 * Gemini's generateContent API. Tool calls and results are parts with the tool's name. A call may have a signature,
 * which the next request must send back unchanged.
 */
import { z } from 'zod'
import type { ChatAnswer, ChatBlock, ChatMessage, ChatRequest, StopReason } from '../types.ts'
import { assembleGemini } from './assembly/gemini.ts'
import { type ChatWire, createCallNames, jsonMap, madeOnce, tokenCount, usageOf } from './wire.ts'

function part(block: ChatBlock, nameOf: (id: string) => string): readonly object[] {
  switch (block.type) {
    case 'text':
      return block.text === '' ? [] : [{ text: block.text }]
    case 'tool_use': {
      const { id, name, input, signature } = block
      return [{ functionCall: { id, name, args: input }, ...(signature && { thoughtSignature: signature }) }]
    }
    case 'tool_result': {
      const { tool_use_id: id, content, is_error } = block
      return [
        { functionResponse: { id, name: nameOf(id), response: is_error ? { error: content } : { result: content } } },
      ]
    }
  }
}

function contents(messages: readonly ChatMessage[]): readonly object[] {
  const names = createCallNames()
  return messages.flatMap(message => {
    names.note(message)
    const parts = message.content.flatMap(block => part(block, names.nameOf))
    return parts.length === 0 ? [] : [{ role: message.role === 'assistant' ? 'model' : 'user', parts }]
  })
}

function geminiBody({ messages, tools, maximumTokens, temperature }: ChatRequest) {
  const system = messages.filter(({ role }) => role === 'system')
  const instructions = system.flatMap(({ content }) => content.flatMap(block => part(block, id => id)))
  return {
    contents: contents(messages.filter(({ role }) => role !== 'system')),
    generationConfig: { maxOutputTokens: maximumTokens, ...(temperature !== undefined && { temperature }) },
    ...(instructions.length > 0 && { systemInstruction: { parts: instructions } }),
    ...(tools.length > 0 && {
      tools: [
        {
          functionDeclarations: tools.map(({ name, description, inputSchema }) => ({
            name,
            description,
            parametersJsonSchema: inputSchema,
          })),
        },
      ],
    }),
  }
}

const answerPart = z.object({
  text: z.string().nullish(),
  thought: z.boolean().nullish(),
  thoughtSignature: z.string().nullish(),
  functionCall: z.object({ id: z.string().nullish(), name: z.string().min(1), args: jsonMap.nullish() }).nullish(),
})

type AnswerBlock = ChatAnswer['content'][number]

function answerBlocks(
  { text, thought, thoughtSignature, functionCall }: z.infer<typeof answerPart>,
  newId: () => string,
): readonly AnswerBlock[] {
  if (functionCall) {
    const { id, name, args } = functionCall
    const signature = thoughtSignature ? { signature: thoughtSignature } : {}
    return [{ type: 'tool_use', id: id || newId(), name, input: args ?? {}, ...signature }]
  }
  return text && !thought ? [{ type: 'text', text }] : []
}

const answer = madeOnce(newId =>
  z
    .object({
      candidates: z
        .array(
          z.object({
            content: z.object({ parts: z.array(answerPart).nullish() }).nullish(),
            finishReason: z.string().nullish(),
          }),
        )
        .nullish(),
      promptFeedback: z.object({ blockReason: z.string().nullish() }).nullish(),
      usageMetadata: z
        .object({
          promptTokenCount: tokenCount,
          candidatesTokenCount: tokenCount,
          thoughtsTokenCount: tokenCount,
          cachedContentTokenCount: tokenCount,
        })
        .nullish(),
    })
    .refine(
      ({ candidates, promptFeedback }) => (candidates?.length ?? 0) > 0 || Boolean(promptFeedback?.blockReason),
      'must have a candidate or say why there is none',
    )
    .transform(({ candidates, usageMetadata: usage }): ChatAnswer => {
      const first = candidates?.[0]
      const content = (first?.content?.parts ?? []).flatMap(one => answerBlocks(one, newId))
      const cached = usage?.cachedContentTokenCount ?? 0
      return {
        content,
        stop_reason: stopReason(first?.finishReason, content),
        ...(usage && {
          token_usage: {
            ...usageOf(usage.promptTokenCount, usage.candidatesTokenCount + usage.thoughtsTokenCount),
            ...(cached > 0 && { cache_read_tokens: cached }),
          },
        }),
      }
    }),
)

function stopReason(finished: string | null | undefined, content: readonly AnswerBlock[]): StopReason {
  if (content.some(({ type }) => type === 'tool_use')) return 'tool_use'
  if (finished === 'MAX_TOKENS') return 'max_tokens'
  return finished === 'STOP' ? 'end_turn' : 'refusal'
}

const bare = (name: string) => name.replace(/^models\//, '')

export const gemini: ChatWire = {
  provider: 'gemini',
  defaultBaseUrl: 'https://generativelanguage.googleapis.com/v1beta',
  keyHeaders: key => ({ 'x-goog-api-key': key }),
  chat: (request, newId) => ({
    path: `/models/${encodeURIComponent(bare(request.model))}:generateContent`,
    body: geminiBody(request),
    answer: answer(newId),
  }),
  streaming: {
    format: 'events',
    body: {},
    path: path => path.replace(/:generateContent$/, ':streamGenerateContent?alt=sse'),
    assemble: assembleGemini,
  },
  models: {
    path: '/models?pageSize=1000',
    answer: z
      .object({
        models: z.array(
          z.object({
            name: z.string(),
            displayName: z.string().nullish(),
            supportedGenerationMethods: z.array(z.string()).nullish(),
          }),
        ),
      })
      .transform(({ models }) =>
        models
          .filter(({ supportedGenerationMethods: methods }) => methods?.includes('generateContent') !== false)
          .map(({ name, displayName }) => ({ name: bare(name), ...(displayName && { description: displayName }) })),
      ),
  },
}
