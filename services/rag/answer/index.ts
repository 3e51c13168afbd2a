/**
 * Answers a question from the documents of a search, completely or as a stream. Without documents, does not call the
 * model.
 */
import { ProviderError } from '../../providers/errors.ts'
import type { ChatAnswer, ChatProvider, ChatRequest } from '../../providers/types.ts'
import type { PipelineSettings } from '../configuration/types.ts'
import { RagError } from '../errors.ts'
import type { Answer, Question } from '../pipelines.ts'
import { ofProvider } from '../provider-errors.ts'
import { mostTokens } from './bound.ts'
import { hasText, surelyFits } from './budget.ts'
import { promptOf } from './prompt.ts'
import { type CountTokens, tokenCounter } from './tokens.ts'

type AnswererOptions = {
  readonly settings: Pick<PipelineSettings, 'completion' | 'tokenBudget' | 'contextTokens' | 'systemPrompt'>
  readonly chat: ChatProvider
}

const nothingFound = 'No relevant information found in the available documents.'

/** Stops a provider that continues past `max_tokens`: no text with so few tokens has more characters. */
const charactersPerToken = 64
const spareCharacters = 10_000

/** Tokens of the built-in system prompt and the rule for documents. */
const ruleTokens = 150
/** The factor by which a prompt may have more tokens than counted, because the model has another tokenizer. */
const otherTokenizers = 1.25
const windowStep = 4_096

export class Answerer {
  readonly #settings: AnswererOptions['settings']
  readonly #chat: ChatProvider

  constructor({ settings, chat }: AnswererOptions) {
    this.#settings = settings
    this.#chat = chat
  }

  /** @throws RagError; the signal's reason */
  async answer(question: Question, signal: AbortSignal): Promise<Answer> {
    if (!hasText(question.documents)) return { answer: nothingFound, tokensUsed: 0 }
    const request = await this.#requestOf(question)
    const answered = await this.#chat.chat(request, signal).catch((error: unknown) => {
      throw ofProvider(error, signal)
    })
    const answer = textOf(answered)
    if (answer.trim() === '') throw this.#withoutText(answered)
    return { answer, tokensUsed: await tokensOf(request, answered, answer) }
  }

  /**
   * Yields the text as it arrives. Ends the request to the provider if the caller stops reading.
   * @throws RagError, with the code STREAMING_ERROR after the first text; the signal's reason
   */
  async *answerStream(
    question: Question,
    signal: AbortSignal,
  ): AsyncGenerator<string, { readonly tokensUsed: number }> {
    if (!hasText(question.documents)) {
      yield nothingFound
      return { tokensUsed: 0 }
    }
    const request = await this.#requestOf(question)
    let text = ''
    try {
      for await (const event of this.#chat.stream(request, signal)) {
        if (event.type === 'text') {
          this.#checkLength(text.length + event.text.length)
          text += event.text
          yield event.text
          continue
        }
        // Returns the same size for all usual questions of a pipeline, because Ollama reloads its model if the size
        // changes.
        if (text.trim() === '') {
          text = textOf(event.answer)
          if (text.trim() === '') throw this.#withoutText(event.answer)
          yield text
        }
        return { tokensUsed: await tokensOf(request, event.answer, text) }
      }
    } catch (error) {
      throw ofProvider(error, signal, text === '' ? undefined : 'STREAMING_ERROR')
    }
    throw new RagError('STREAMING_ERROR', `${this.#chat.provider} ended its answer before it was complete`)
  }

  async #requestOf(question: Question): Promise<ChatRequest> {
    const { completion, tokenBudget, contextTokens } = this.#settings
    const fits = surelyFits(question.documents, question.history, contextTokens)
    const count = fits ? () => 0 : await tokenCounter()
    const messages = promptOf(question, this.#settings, count)
    const request = { model: completion.model, tools: [], maximumTokens: tokenBudget, messages }
    return completion.provider === 'ollama' ? { ...request, windowTokens: await this.#windowFor(question) } : request
  }

  /** The same for all usual questions of a pipeline: Ollama reloads its model for another value. */
  async #windowFor({ query }: Question): Promise<number> {
    const { tokenBudget, contextTokens, systemPrompt = '' } = this.#settings
    const windowWith = (count: CountTokens) => {
      const needed = contextTokens + tokenBudget + count(systemPrompt) + count(query) + ruleTokens
      return Math.ceil((needed * otherTokenizers) / windowStep) * windowStep
    }
    const most = windowWith(mostTokens)
    return most === windowWith(() => 0) ? most : windowWith(await tokenCounter())
  }

  #checkLength(length: number): void {
    const most = this.#settings.tokenBudget * charactersPerToken + spareCharacters
    if (length <= most) return
    throw new ProviderError('malformed', this.#chat.provider, 'sent far more text than the request allows')
  }

  #withoutText({ stop_reason: reason }: ChatAnswer): RagError {
    const { provider } = this.#chat
    if (reason === 'refusal') return new RagError('EXECUTION_ERROR', `${provider} refused to answer`)
    const because = reason === 'max_tokens' ? ': token_budget was used up before any text' : ''
    return new RagError('EXECUTION_ERROR', `${provider} sent an answer without text${because}`)
  }
}

const textOf = ({ content }: ChatAnswer): string =>
  content.map(block => (block.type === 'text' ? block.text : '')).join('')

/** The provider's token count, or the server's own count if the provider reports none. */
async function tokensOf({ messages }: ChatRequest, { token_usage }: ChatAnswer, answer: string): Promise<number> {
  if (token_usage !== undefined && token_usage.total_tokens > 0) return token_usage.total_tokens
  const count = await tokenCounter()
  const texts = messages.flatMap(({ content }) => content.map(block => (block.type === 'text' ? block.text : '')))
  return [...texts, answer].reduce((sum, text) => sum + count(text), 0)
}
