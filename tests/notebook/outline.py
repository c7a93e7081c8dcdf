"""HTML as its tags, texts and attributes."""

from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "meta", "link"}


class Outline(HTMLParser):
    """Checks that tags are balanced; collects texts by tag, and the values of attributes."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts, self.attributes = [], [], {}, {}
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        tag = self.open[-1] if self.open else ""
        self.texts.setdefault(tag, []).append(data)

    @property
    def text(self):
        return " ".join(text for tag, texts in self.texts.items() if tag != "style" for text in texts)


def stands_alone(html):
    """Needs no script, no network and no file."""
    outline = Outline(html)
    assert not {"script", "link", "img", "iframe", "use", "image", "foreignobject"} & set(outline.tags)
    assert not [name for name in outline.attributes if name.startswith("on") or name in {"src", "href"}]
    assert "url(" not in html.replace('url("data:', "")  # icons are a part of the page
    return outline
