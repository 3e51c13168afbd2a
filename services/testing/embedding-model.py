"""all-MiniLM-L6-v2 in numpy, behind an OpenAI-compatible endpoint, for tests.

Usage: embedding-model.py FOLDER_OF_THE_MODEL. Prints its port when it is ready, and ends when its standard input ends.
"""
import http.server
import json
import os
import sys
import threading
import unicodedata

import numpy as np

folder = sys.argv[1]
layers, heads, longest = 6, 12, 256


def tensors(path):
    """Reads a safetensors file: a length, a JSON table with the position of each tensor, and the bytes of all tensors."""
    with open(path, 'rb') as file:
        table = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
        data = np.frombuffer(file.read(), dtype=np.uint8)
    found = {}
    for name, at in table.items():
        if name != '__metadata__' and at['dtype'] == 'F32':
            start, end = at['data_offsets']
            found[name] = data[start:end].view(np.float32).reshape(at['shape'])
    return found


weights = tensors(os.path.join(folder, 'model.safetensors'))
prefix = next(name for name in weights if name.endswith('embeddings.word_embeddings.weight'))[: -len('embeddings.word_embeddings.weight')]
with open(os.path.join(folder, 'vocab.txt'), encoding='utf-8') as file:
    vocabulary = {word.rstrip('\n'): number for number, word in enumerate(file)}


def w(name):
    return weights[prefix + name]


def words(text):
    text = ''.join(one for one in unicodedata.normalize('NFD', text.lower()) if unicodedata.category(one) != 'Mn')
    spaced = ''.join(f' {one} ' if unicodedata.category(one)[0] in 'PS' or 0x4E00 <= ord(one) <= 0x9FFF else one for one in text)
    return spaced.split()


def pieces(word):
    found, start = [], 0
    while start < len(word):
        end = len(word)
        while end > start and ('##' if start else '') + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            return ['[UNK]']
        found.append(('##' if start else '') + word[start:end])
        start = end
    return found


def layer_norm(x, name):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * w(name + '.weight') + w(name + '.bias')


def linear(x, name):
    return x @ w(name + '.weight').T + w(name + '.bias')


def gelu(x):
    # Abramowitz and Stegun, formula 7.1.26: the error is below 2e-7.
    t = 1 / (1 + 0.3275911 * np.abs(x) / np.sqrt(2))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - poly * np.exp(-(x**2) / 2))
    return 0.5 * x * (1 + erf)


def embed(text):
    tokens = [piece for word in words(text) for piece in pieces(word)][: longest - 2]
    ids = [vocabulary[one] for one in ['[CLS]', *tokens, '[SEP]']]
    x = w('embeddings.word_embeddings.weight')[ids] + w('embeddings.position_embeddings.weight')[: len(ids)]
    x = layer_norm(x + w('embeddings.token_type_embeddings.weight')[0], 'embeddings.LayerNorm')
    for number in range(layers):
        at = f'encoder.layer.{number}.'
        query, key, value = (
            linear(x, f'{at}attention.self.{part}').reshape(len(ids), heads, -1).transpose(1, 0, 2) for part in ('query', 'key', 'value')
        )
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        attended = (scores / scores.sum(-1, keepdims=True)) @ value
        attended = attended.transpose(1, 0, 2).reshape(len(ids), -1)
        x = layer_norm(x + linear(attended, at + 'attention.output.dense'), at + 'attention.output.LayerNorm')
        inner = linear(gelu(linear(x, at + 'intermediate.dense')), at + 'output.dense')
        x = layer_norm(x + inner, at + 'output.LayerNorm')
    mean = x.mean(0)
    return [float(one) for one in mean / np.linalg.norm(mean)]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers['content-length'])))
        data = [{'object': 'embedding', 'index': place, 'embedding': embed(text)} for place, text in enumerate(request['input'])]
        body = json.dumps({'object': 'list', 'data': data, 'model': request['model']}).encode()
        self.send_response(200)
        self.send_header('content-type', 'application/json')
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
